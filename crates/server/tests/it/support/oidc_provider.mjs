// A real OpenID provider for the tests: npm's `oidc-provider` with clients, accounts and keys of ours.
//
// RLINKS_TEST_OIDC names the folder it is installed in. It listens on a free port of this machine, says which one, and ends with its
// standard input. Beside the provider there are two doors for tests: POST /test/account says who somebody is, POST /test/rotate
// makes new keys and keeps publishing the old ones.

import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const installed = join(process.env.RLINKS_TEST_OIDC, 'node_modules/oidc-provider/lib/index.js');
const { default: Provider } = await import(pathToFileURL(installed).href);

const redirectUris = ['http://localhost/admin/oidc/callback'];
const client = (more) => ({ redirect_uris: redirectUris, grant_types: ['authorization_code'], response_types: ['code'], ...more });
const clients = [
    client({ client_id: 'rlinks-web', client_secret: 'the-secret-of-the-web-client' }),
    client({ client_id: 'rlinks-public', token_endpoint_auth_method: 'none', id_token_signed_response_alg: 'ES256' }),
    client({ client_id: 'rlinks-cli', token_endpoint_auth_method: 'none' }),
];

const accounts = new Map();
const claimsOf = (id) => ({ sub: id, email: `${id}@example.com`, email_verified: true, name: `${id} of the provider`, ...accounts.get(id) });

const resources = {
    'https://links.test/api': { audience: 'rlinks-api', alg: 'RS256' },
    'https://links.test/api-ec': { audience: 'rlinks-api', alg: 'ES256' },
    'https://other.test/api': { audience: 'another-api', alg: 'RS256' },
};

let generation = 0;
const newKeys = () => {
    generation += 1;
    const key = (kind, options, alg) => {
        // By way of PEM: in Node 20 the export of a key as JWK can wait for ever for the job that made this very key.
        const encoded = { ...options, privateKeyEncoding: { type: 'pkcs8', format: 'pem' }, publicKeyEncoding: { type: 'spki', format: 'pem' } };
        const { privateKey } = generateKeyPairSync(kind, encoded);
        return { ...createPrivateKey(privateKey).export({ format: 'jwk' }), use: 'sig', alg, kid: `${alg}-${generation}` };
    };
    return [key('rsa', { modulusLength: 2048 }, 'RS256'), key('ec', { namedCurve: 'P-256' }, 'ES256')];
};

const configuration = (keys) => ({
    clients,
    jwks: { keys },
    cookies: { keys: ['for tests only'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'groups'] },
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => claimsOf(id) }),
    // An access token says who somebody is, as those of Zitadel can.
    extraTokenClaims: (_, token) => (token.accountId ? claimsOf(token.accountId) : undefined),
    features: {
        devInteractions: { enabled: true },
        resourceIndicators: {
            enabled: true,
            getResourceServerInfo: (_, resource) => {
                const { audience, alg } = resources[resource];
                return { audience, scope: 'links', accessTokenFormat: 'jwt', jwt: { sign: { alg } } };
            },
        },
    },
    ttl: { AccessToken: 3600, AuthorizationCode: 60, Grant: 3600, IdToken: 3600, Interaction: 600, Session: 3600 },
});

let keys = newKeys();
let handle;
const begin = (issuer) => {
    // The store of the provider belongs to the process, so codes and sessions live on.
    handle = new Provider(issuer, configuration(keys)).callback();
};

const body = async (request) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    return text;
};

const server = createServer(async (request, response) => {
    if (request.url === '/test/account') {
        const { sub, ...claims } = JSON.parse(await body(request));
        accounts.set(sub, claims);
        response.end('{}');
    } else if (request.url === '/test/rotate') {
        keys = [...newKeys(), ...keys];
        begin(`http://127.0.0.1:${server.address().port}`);
        response.end('{}');
    } else {
        handle(request, response);
    }
});
server.listen(0, '127.0.0.1', () => {
    const issuer = `http://127.0.0.1:${server.address().port}`;
    begin(issuer);
    process.stdout.write(`listening at ${issuer}\n`);
});
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();

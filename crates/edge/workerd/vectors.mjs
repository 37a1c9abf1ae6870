// Targets nobody may write, and none may be served from: schemes, control characters, names of users, hosts that are none.
export const REFUSED = [
    "javascript:alert(1)", "  javascript:alert(1)", "java\tscript:alert(1)", "\u0001javascript:alert(1)", "JaVaScRiPt:alert(1)",
    "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://a.example/x", "view-source:https://a.example/",
    "intent://x#Intent;end", "about:blank", "https+x://a.example/", "ftp://a.example/",
    "https://a.example/\r\nSet-Cookie: x=1", "https://a.example/\u0000", "https://a.example/\tx", " https://a.example/",
    "https://good.example@evil.example/", "https://good.example:443@evil.example/", "https://user:pw@good.example/",
    "https://good.example\\@evil.example/", "https:evil.example", "https:/evil.example", "https:///evil.example", "//evil.example",
    "\\\\evil.example", "https://good.example%40evil.example/",
    "https://a..b/", "https://-a.example/", "https://a.example:0/", "https://a.example:99999/", "https://exam%2Fple.example/", "https://ex%61mple.example/",
    "https://xn--example-.example/", "", "/relative",
];

// Targets that are written in one way and sent in another: what is stored is what the parser serialised.
export const SERIALISED = [
    ["https://faß.de", "https://xn--fa-hia.de/"],
    ["https://аррӏе.com/", "https://xn--80ak6aa92e.com/"],
    ["https://example。com/x", "https://example.com/x"],
    ["HTTPS://EXample.com:443/%7Eu?q=ä#f", "https://example.com/%7Eu?q=%C3%A4#f"],
];

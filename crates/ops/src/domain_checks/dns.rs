//! A stub resolver: one question to a recursive resolver over UDP, over TCP where the answer does not fit.
//!
//! What DNS says and what could not be asked are two things. Only an answer is an answer: a name that does not exist, or exists without
//! such a record. A server's trouble, a refusal and silence are errors, and errors change nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, ResourceRecord, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use rlinks_store::clock::Random;

/// Where the system says whom to ask.
const RESOLV_CONF: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;
/// Of those it names, so many are asked.
const MAX_SERVERS: usize = 3;
const ATTEMPTS_PER_SERVER: usize = 2;
/// ...and waited for so long.
const SERVER_TIMEOUT: Duration = Duration::from_secs(2);
/// A whole question takes no longer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(8);
/// What UDP brings without being asked for more; the rest comes by TCP.
const MAX_DATAGRAM_BYTES: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) enum Resolver {
    /// One that was configured.
    Server(SocketAddr),
    /// Those of the system, as they are when something is asked.
    System,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordType {
    Txt,
    // IPv4 addresses.
    A,
    // IPv6 addresses.
    Aaaa,
}

/// What DNS says, whatever it leads through included. Empty where there is nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DnsResponse {
    /// The texts, each in one piece.
    pub(crate) texts: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
    /// The names it leads through.
    pub(crate) names: Vec<String>,
}

impl Resolver {
    /// Asks. An error says why nobody knows.
    pub(crate) async fn query(
        &self,
        name: &str,
        kind: RecordType,
        random: &Random,
    ) -> Result<DnsResponse, String> {
        let asked = tokio::time::timeout(QUERY_TIMEOUT, self.query_servers(name, kind, random)).await;
        asked.unwrap_or_else(|_| Err("no resolver answered in time".to_owned()))
    }

    async fn query_servers(
        &self,
        name: &str,
        kind: RecordType,
        random: &Random,
    ) -> Result<DnsResponse, String> {
        let servers = self.servers().await?;
        let mut why = String::new();
        for server in servers.iter().cycle().take(servers.len() * ATTEMPTS_PER_SERVER) {
            match query_server(*server, name, kind, random).await {
                Ok(answer) => return Ok(answer),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    async fn servers(&self) -> Result<Vec<SocketAddr>, String> {
        match self {
            Self::Server(server) => Ok(vec![*server]),
            Self::System => {
                let text = tokio::fs::read_to_string(RESOLV_CONF).await;
                let text = text.map_err(|error| format!("{RESOLV_CONF}: {error}"))?;
                let servers = parse_resolv_conf(&text);
                if servers.is_empty() { Err(format!("{RESOLV_CONF} names no resolver")) } else { Ok(servers) }
            }
        }
    }
}

/// The resolvers a `resolv.conf` names.
fn parse_resolv_conf(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        name.parse::<IpAddr>().ok()
    };
    let servers = text.lines().filter_map(address).map(|address| SocketAddr::new(address, DNS_PORT));
    servers.take(MAX_SERVERS).collect()
}

async fn query_server(
    server: SocketAddr,
    name: &str,
    kind: RecordType,
    random: &Random,
) -> Result<DnsResponse, String> {
    let id = u16::from_be_bytes(random.bytes());
    let question = encode_query(id, name, kind)?;
    let io_error = |error: std::io::Error| format!("the resolver {server}: {error}");
    let silent = |_| format!("the resolver {server} did not answer in time");
    let datagram = tokio::time::timeout(SERVER_TIMEOUT, query_udp(server, &question, id)).await;
    let datagram = datagram.map_err(silent)?.map_err(io_error)?;
    let Some(answer) = parse_response(&datagram, id, name, server)? else {
        let whole = tokio::time::timeout(SERVER_TIMEOUT, query_tcp(server, &question)).await;
        let whole = whole.map_err(silent)?.map_err(io_error)?;
        let cut = || format!("the resolver {server} cut its answer off");
        return parse_response(&whole, id, name, server)?.ok_or_else(cut);
    };
    Ok(answer)
}

fn encode_query(id: u16, name: &str, kind: RecordType) -> Result<Vec<u8>, String> {
    let unfit = |_| format!("`{name}` is no name DNS can be asked for");
    let kind = match kind {
        RecordType::Txt => TYPE::TXT,
        RecordType::A => TYPE::A,
        RecordType::Aaaa => TYPE::AAAA,
    };
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(unfit)?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(unfit)
}

/// From a port of its own, and from nobody but whom it asked.
async fn query_udp(server: SocketAddr, question: &[u8], id: u16) -> std::io::Result<Vec<u8>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What answers another question is not ours.
        if buffer[..length].starts_with(&id.to_be_bytes()) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn query_tcp(server: SocketAddr, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(std::io::Error::other)?;
    let framed = [&length.to_be_bytes()[..], question].concat();
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// What a message says; nothing where it was cut off.
fn parse_response(
    message: &[u8],
    id: u16,
    name: &str,
    server: SocketAddr,
) -> Result<Option<DnsResponse>, String> {
    let unreadable = || format!("the resolver {server} answered something nobody can read");
    let packet = match Packet::parse(message) {
        Ok(packet) => packet,
        // Cut off in the middle of a record.
        Err(_) if message.get(2).is_some_and(|flags| flags & 0b10 != 0) => return Ok(None),
        Err(_) => return Err(unreadable()),
    };
    let asked = packet.questions.first().map(|question| question.qname.to_string());
    if packet.id() != id
        || !packet.has_flags(PacketFlag::RESPONSE)
        || !asked.is_some_and(|asked| asked.eq_ignore_ascii_case(name))
    {
        return Err(unreadable());
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Ok(None);
    }
    match packet.rcode() {
        RCODE::NoError | RCODE::NameError => {}
        RCODE::ServerFailure => return Err(format!("the resolver {server} could not find out (SERVFAIL)")),
        RCODE::Refused => return Err(format!("the resolver {server} refused to answer")),
        other => return Err(format!("the resolver {server} answered {other:?}")),
    }
    let mut answer = DnsResponse::default();
    let looks = [PacketFlag::RECURSION_AVAILABLE, PacketFlag::AUTHORITATIVE_ANSWER];
    let knows = packet.rcode() == RCODE::NameError || looks.iter().any(|flag| packet.has_flags(*flag));
    let owners = owner_chain(name, &packet.answers);
    for record in packet.answers {
        // What belongs to another name says nothing about this one.
        if !owners.contains(&record.name.to_string().to_ascii_lowercase()) {
            continue;
        }
        match record.rdata {
            RData::TXT(text) => answer.texts.extend(String::try_from(text).ok()),
            RData::A(a) => answer.addresses.push(Ipv4Addr::from_bits(a.address).into()),
            RData::AAAA(aaaa) => answer.addresses.push(Ipv6Addr::from_bits(aaaa.address).into()),
            RData::CNAME(cname) => answer.names.push(cname.0.to_string().to_ascii_lowercase()),
            _ => {}
        }
    }
    // A server that only points to others, because it does not look for anybody, knows nothing.
    if knows || answer != DnsResponse::default() {
        Ok(Some(answer))
    } else {
        Err(format!("the resolver {server} does not look for others"))
    }
}

/// The name that was asked for, and those its CNAME records lead to.
fn owner_chain(name: &str, answers: &[ResourceRecord<'_>]) -> Vec<String> {
    let mut owners = vec![name.to_ascii_lowercase()];
    // Records may come in any order; each name is followed once.
    let mut at = 0;
    while let Some(owner) = owners.get(at).cloned() {
        for record in answers {
            let RData::CNAME(alias) = &record.rdata else { continue };
            let target = alias.0.to_string().to_ascii_lowercase();
            if record.name.to_string().eq_ignore_ascii_case(&owner) && !owners.contains(&target) {
                owners.push(target);
            }
        }
        at += 1;
    }
    owners
}

#[cfg(test)]
mod tests {
    use simple_dns::rdata::{CNAME, RData, TXT};
    use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, ResourceRecord, TYPE};

    use super::{parse_resolv_conf, parse_response};

    /// The texts an answer of these records proves for `_rlinks.a.example`.
    fn texts(records: &[(&str, RData<'static>)]) -> Vec<String> {
        let name = |text: &str| Name::new_unchecked(text).into_owned();
        let mut packet = Packet::new_reply(7);
        packet.set_flags(PacketFlag::RECURSION_AVAILABLE);
        let (kind, class) = (QTYPE::TYPE(TYPE::TXT), QCLASS::CLASS(CLASS::IN));
        packet.questions.push(Question::new(name("_rlinks.a.example"), kind, class, false));
        for (owner, data) in records {
            packet.answers.push(ResourceRecord::new(name(owner), CLASS::IN, 60, data.clone()));
        }
        let bytes = packet.build_bytes_vec().unwrap();
        let server = "192.0.2.1:53".parse().unwrap();
        parse_response(&bytes, 7, "_rlinks.a.example", server).unwrap().unwrap().texts
    }

    #[test]
    fn only_records_of_the_name_or_its_aliases_count() {
        let txt = |text| RData::TXT(TXT::new().with_string(text).unwrap());
        let alias = |text| RData::CNAME(CNAME(Name::new_unchecked(text)));
        assert_eq!(texts(&[("_RLINKS.a.example", txt("own"))]), ["own"]);
        assert!(texts(&[("evil.example", txt("another's"))]).is_empty());
        let chain = [
            ("c.example", txt("end of the chain")),
            ("b.example", alias("c.example")),
            ("_rlinks.a.example", alias("b.example")),
            ("d.example", txt("beside it")),
        ];
        assert_eq!(texts(&chain), ["end of the chain"]);
        let circle = [("_rlinks.a.example", alias("b.example")), ("b.example", alias("_rlinks.a.example"))];
        assert!(texts(&circle).is_empty());
    }

    #[test]
    fn resolvers_are_read_from_resolv_conf() {
        let text = "# ours\nsearch example.com\nnameserver 192.0.2.1\n  nameserver\t2001:db8::1\nnameserver nobody\noptions edns0\n";
        let servers: Vec<String> = parse_resolv_conf(text).iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "[2001:db8::1]:53"]);
        let many = "nameserver 192.0.2.1\n".repeat(9);
        assert_eq!(parse_resolv_conf(&many).len(), 3);
    }
}

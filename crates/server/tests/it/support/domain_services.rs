//! A resolver and an RDAP service that answer from tables, and can be told to answer otherwise.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use simple_dns::rdata::{A, CNAME, RData, TXT};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

/// How a resolver answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StubBehavior {
    #[default]
    Well,
    /// It could not find out.
    ServFail,
    /// It does not want to.
    Refused,
    /// It only points to others.
    Referral,
    /// With bytes that are no message.
    Garbage,
    /// By UDP only that it is too much; by TCP as it should.
    Truncated,
}

#[derive(Default)]
struct DnsTable {
    records: HashMap<(String, &'static str), Vec<String>>,
    manner: StubBehavior,
    by_tcp: usize,
}

pub(crate) struct StubDns {
    pub(crate) address: SocketAddr,
    table: Arc<Mutex<DnsTable>>,
}

impl StubDns {
    pub(crate) fn new() -> Self {
        // One port for both; another one where UDP's is taken.
        let (tcp, udp) = std::iter::repeat_with(|| {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let udp = UdpSocket::bind(tcp.local_addr().unwrap());
            udp.ok().map(|udp| (tcp, udp))
        })
        .flatten()
        .next()
        .unwrap();
        let address = udp.local_addr().unwrap();
        let table = Arc::new(Mutex::new(DnsTable::default()));
        let shared = Arc::clone(&table);
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((length, from)) = udp.recv_from(&mut buffer) {
                let answer = answer(&buffer[..length], &shared.lock().unwrap(), "udp");
                let _ = udp.send_to(&answer, from);
            }
        });
        let shared = Arc::clone(&table);
        std::thread::spawn(move || {
            for mut stream in tcp.incoming().map_while(Result::ok) {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut question).unwrap();
                let answer = {
                    let mut table = shared.lock().unwrap();
                    table.by_tcp += 1;
                    answer(&question, &table, "tcp")
                };
                let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length[..], &answer].concat()).unwrap();
            }
        });
        Self { address, table }
    }

    /// Says this of a name; nothing takes it away.
    pub(crate) fn set_records(&self, name: &str, kind: &'static str, values: &[&str]) {
        let place = (name.to_owned(), kind);
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        let mut table = self.table.lock().unwrap();
        if values.is_empty() {
            table.records.remove(&place);
        } else {
            table.records.insert(place, values);
        }
    }

    pub(crate) fn set_behavior(&self, manner: StubBehavior) {
        self.table.lock().unwrap().manner = manner;
    }

    pub(crate) fn asked_by_tcp(&self) -> usize {
        self.table.lock().unwrap().by_tcp
    }
}

fn answer(question: &[u8], table: &DnsTable, over: &str) -> Vec<u8> {
    let asked = Packet::parse(question).unwrap();
    assert!(asked.has_flags(PacketFlag::RECURSION_DESIRED), "a stub asks for the whole way");
    let mut reply = Packet::new_reply(asked.id());
    reply.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
    reply.questions.clone_from(&asked.questions);
    match table.manner {
        StubBehavior::Garbage => return [&question[..2], b"\xff\xff nobody reads this"].concat(),
        StubBehavior::ServFail => *reply.rcode_mut() = RCODE::ServerFailure,
        StubBehavior::Refused => *reply.rcode_mut() = RCODE::Refused,
        StubBehavior::Referral => reply.remove_flags(PacketFlag::RECURSION_AVAILABLE),
        StubBehavior::Truncated if over == "udp" => reply.set_flags(PacketFlag::TRUNCATION),
        StubBehavior::Well | StubBehavior::Truncated => {
            let name = asked.questions[0].qname.to_string();
            let kind = match asked.questions[0].qtype {
                QTYPE::TYPE(TYPE::TXT) => "TXT",
                QTYPE::TYPE(TYPE::A) => "A",
                QTYPE::TYPE(TYPE::AAAA) => "AAAA",
                other => panic!("nobody should ask for {other:?}"),
            };
            fill(&mut reply, table, name, kind);
        }
    }
    reply.build_bytes_vec().unwrap()
}

fn fill(reply: &mut Packet<'_>, table: &DnsTable, mut name: String, kind: &'static str) {
    while let Some(to) = table.records.get(&(name.clone(), "CNAME")) {
        let to = to[0].clone();
        let rdata = RData::CNAME(CNAME(Name::new(&to).unwrap().into_owned()));
        reply.answers.push(ResourceRecord::new(Name::new(&name).unwrap().into_owned(), CLASS::IN, 60, rdata));
        name = to;
    }
    if !table.records.keys().any(|(known, _)| *known == name) {
        *reply.rcode_mut() = RCODE::NameError;
    }
    for value in table.records.get(&(name.clone(), kind)).into_iter().flatten() {
        let rdata = match kind {
            "TXT" => RData::TXT(TXT::try_from(value.as_str()).unwrap().into_owned()),
            "A" => RData::A(A { address: value.parse::<Ipv4Addr>().unwrap().to_bits() }),
            _ => panic!("{kind} is not in tables"),
        };
        reply.answers.push(ResourceRecord::new(Name::new(&name).unwrap().into_owned(), CLASS::IN, 60, rdata));
    }
}

/// An RDAP service: names and the days their registrations end. What it does not know is 404.
pub(crate) struct StubRdap {
    address: SocketAddr,
    known: Arc<Mutex<HashMap<String, String>>>,
    /// The answer to everything, where it is not 200 or 404.
    status: Arc<Mutex<Option<u16>>>,
    asked: Arc<AtomicUsize>,
}

impl StubRdap {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rdap = Self {
            address: listener.local_addr().unwrap(),
            known: Arc::default(),
            status: Arc::default(),
            asked: Arc::default(),
        };
        let (known, status, asked) =
            (Arc::clone(&rdap.known), Arc::clone(&rdap.status), Arc::clone(&rdap.asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let path = path(&stream);
                asked.fetch_add(1, Ordering::SeqCst);
                let status = *status.lock().unwrap();
                let answer = match (status, path.strip_prefix("/at-registry/domain/")) {
                    (Some(status), _) => head(status, "", ""),
                    // As a service for everybody does: it knows who knows.
                    (None, None) => head(302, &format!("Location: /at-registry{path}\r\n"), ""),
                    (None, Some(name)) => match known.lock().unwrap().get(name) {
                        None => head(404, "", ""),
                        Some(end) => head(200, "", &registration(name, end)),
                    },
                };
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        rdap
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn register(&self, name: &str, until: &str) {
        self.known.lock().unwrap().insert(name.to_owned(), until.to_owned());
    }

    pub(crate) fn set_behavior(&self, status: Option<u16>) {
        *self.status.lock().unwrap() = status;
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn path(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let _ = lines.take_while(|line| !line.is_empty()).count();
    first.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn head(status: u16, more: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} So\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n{body}")
}

/// As registries write it, with what nobody here reads.
fn registration(name: &str, end: &str) -> String {
    let other = "{\"eventAction\":\"registration\",\"eventDate\":\"1995-08-14T04:00:00Z\"}";
    format!(
        "{{\"objectClassName\":\"domain\",\"ldhName\":\"{name}\",\"status\":[\"active\"],\"events\":[{other},\
         {{\"eventAction\":\"expiration\",\"eventDate\":\"{end}\"}}]}}"
    )
}

//! The columns of events that lines of a log report.

event::columns! {
    /// The columns of what a line says.
    pub struct LogColumns {
        ip: Ip "log.ip" "Address that the line names",
        net: String "log.net" "Network of the address in CIDR notation",
        host: String "log.host" "Name of the host, where the line names no address",
        id: String "log.id" "Id that is counted: what a pattern names so, else the address or the host",
        user: String "log.user" "Name of the account",
        port: String "log.port" "Port or service",
        pattern: Integer "log.pattern" "Number of the pattern that read the line, from 1",
        text: String "log.text" "The line without its date, at most 1,024 bytes of it",
    }
}

//! The columns of events that lines of a log report.

event::columns! {
    /// The columns of what a line says.
    pub struct LogColumns {
        ip: Ip "log.ip" "Address in the line",
        net: String "log.net" "Network of the address, in CIDR notation",
        host: String "log.host" "Host name, if the line has no address",
        id: String "log.id" "Counted id: the pattern's own, else the address or the host",
        user: String "log.user" "Account name",
        port: String "log.port" "Port or service",
        pattern: Integer "log.pattern" "Number of the matching pattern, from 1",
        text: String "log.text" "The line without its date, at most 1,024 bytes",
    }
}

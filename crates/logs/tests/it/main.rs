//! Lines of logs against what others say of them.

mod crowdsec_hub;
mod fail2ban_labels;

//! Lines of logs against what others say of them.

mod fail2ban_labels;

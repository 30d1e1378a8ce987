# A mail was moved into the folder for spam: its owner complains about it.
require ["copy", "environment", "imapsieve", "variables", "vnd.dovecot.pipe"];

if environment :matches "imap.user" "*" {
  pipe :copy "tollhouse-report" ["complaint", "${1}"];
}

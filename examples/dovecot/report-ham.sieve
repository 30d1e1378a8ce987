# A mail was moved out of the folder for spam: its owner wants it, unless it was thrown away.
require ["copy", "environment", "imapsieve", "variables", "vnd.dovecot.pipe"];

if environment :matches "imap.mailbox" "*" {
  set "folder" "${1}";
}
if string :is "${folder}" ["Trash", "Deleted Items", "Deleted Messages"] {
  stop;
}
if environment :matches "imap.user" "*" {
  pipe :copy "tollhouse-report" ["pardon", "${1}"];
}

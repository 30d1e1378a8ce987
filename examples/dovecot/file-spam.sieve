# Mail that Tollhouse calls spam goes to the folder for spam, before its owner's own rules.
require ["fileinto", "mailbox"];

if header :is "X-Spam-Flag" "YES" {
  fileinto :create "Junk";
  stop;
}

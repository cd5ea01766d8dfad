/** Names of what must not be reached from outside, in the spellings that have got past guards before. Nothing here has to be looked up to be refused, except the names that a test's resolver leads to this machine. */

/** Hosts as they stand between `http://` and the port: this machine, its network, and where clouds keep a machine's secrets. */
export const LOCAL_HOSTS: readonly string[] = [
  // This machine: decimal, octal, hexadecimal, short and mixed forms, every dot there is.
  '127.0.0.1', '127.0.0.1.', '127.0.1', '127.1', '127.1.', '127.127.127.127', '127.255.255.254', '2130706433', '2130706433.', '017700000001',
  '00000000000017700000001', '0177.0.0.1', '0177.0.0.01', '00177.0.0.1', '0177.1', '0177.0.1', '0x7f000001', '0X7F000001', '0x7f.1', '0x7f.0.1', '0x7f.0x0.0x0.0x1',
  '0x7f.0.0.1', '0x0000007f.0.0.1', '0x7f.000.00.0x1', '127.0x1', '127.00000.1', '127.65535', '127.16777215', '0177.0xffff', '0', '0.', '00', '0x0', '0x', '0.0', '0.0.0', '0.0.0.0', '0.0.0.0.', '0.1.2.3', '0.255.255.255',
  '127。0。0。1', '127．0．0．1', '127｡0｡0｡1', '１２７.0.0.1', '１２７．０．０．１', '①②⑦.⓪.⓪.①', '①②⑦。0。0。1', '𝟏𝟐𝟕.𝟎.𝟎.𝟏', '¹²⁷.⁰.⁰.¹', '0𝗑7f.1', '②①③⓪⑦⓪⑥④③③',
  '%31%32%37.%30.%30.%31', '127%2e0%2e0%2e1', '%6c%6f%63%61%6c%68%6f%73%74', '127.0.0.1%2e',
  'localhost', 'localhost.', 'localhost..', 'LOCALHOST', 'LocalHost', 'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ', 'ｌｏｃａｌｈｏｓｔ', 'loc\u00adalhost', 'localhoſt', 'app.localhost', 'a.b.localhost.', 'localhost.localdomain', 'x.localdomain', 'ip6-localhost', 'ip6-loopback', 'broadcasthost',
  // The same in IPv6.
  '[::1]', '[0:0:0:0:0:0:0:1]', '[0000:0000:0000:0000:0000:0000:0000:0001]', '[::0001]', '[0::1]', '[::0.0.0.1]', '[::]', '[0:0:0:0:0:0:0:0]', '[::0]', '[0000::]',
  '[::127.0.0.1]', '[::7f00:1]', '[::ffff:127.0.0.1]', '[::FFFF:127.0.0.1]', '[::ffff:7f00:1]', '[::ffff:7f00:0001]', '[0:0:0:0:0:ffff:127.0.0.1]', '[0:0:0:0:0:ffff:7f00:1]', '[::ffff:0.0.0.0]', '[::ffff:0:0]', '[::ffff:10.0.0.1]', '[::ffff:169.254.169.254]', '[::ffff:a9fe:a9fe]', '[::ffff:0:127.0.0.1]',
  // IPv4 inside of IPv6: NAT64, 6to4, Teredo, ISATAP's link.
  '[64:ff9b::127.0.0.1]', '[64:ff9b::7f00:1]', '[64:ff9b::a9fe:a9fe]', '[64:ff9b::10.0.0.1]', '[64:ff9b:1::127.0.0.1]', '[64:ff9b:1::7f00:1]', '[64:ff9b:1:ffff::1]', '[2002:7f00:1::]', '[2002:7f00:0001::1]', '[2002:a9fe:a9fe::]', '[2002:a00:1::1]', '[2002:c0a8:101::]', '[2001::1]', '[2001:0:7f00:1::]', '[2001:0:4136:e378:8000:63bf:80ff:fffe]', '[fe80::5efe:7f00:1]',
  // Networks that are nobody's or only ours.
  '[fe80::1]', '[fe80::a9fe:a9fe]', '[febf::1]', '[fec0::1]', '[feff::1]', '[fc00::1]', '[fd00::1]', '[fd00:ec2::254]', '[fd00:ec2::23]', '[fd20:ce::254]', '[fdff:ffff::1]', '[ff02::1]', '[ff0e::1]', '[100::1]', '[2001:2::1]', '[2001:10::1]', '[2001:20::1]', '[2001:db8::1]', '[3fff::1]', '[5f00::1]', '[4000::1]', '[1::1]',
  '10.0.0.1', '10.255.255.255', '10.1', '012.0.0.1', '0xa.0.0.1', '167772161', '172.16.0.1', '172.31.255.255', '172.0x1f.1', '192.168.0.1', '192.168.257', '0300.0250.1', '3232235777', '0xc0a80001', '100.64.0.1', '100.127.255.255', '1681915905', '169.254.0.1',
  '192.0.0.1', '192.0.0.192', '192.0.2.1', '192.88.99.1', '198.18.0.1', '198.19.255.255', '198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.250', '240.0.0.1', '255.255.255.255', '4294967295', '0xffffffff', '0377.0377.0377.0377',
  // Where a machine in a cloud is told its secrets.
  '169.254.169.254', '169.254.169.254.', '2852039166', '0xa9fea9fe', '0xA9.0xFE.0xA9.0xFE', '0251.0376.0251.0376', '0251.254.169.254', '169.254.43518', '169.16689662', '①⑥⑨.②⑤④.①⑥⑨.②⑤④', '169.254.170.2', '169.254.170.23', '169.254.0.23', '100.100.100.200', '168.63.129.16',
  'metadata', 'metadata.google.internal', 'metadata.google.internal.', 'METADATA.GOOGLE.INTERNAL', 'metadata.goog', 'instance-data', 'instance-data.ec2.internal', 'metadata.tencentyun.com', 'metadata.packet.net', 'metadata.platformequinix.com', 'kubernetes', 'kubernetes.default.svc.cluster.local', 'host.docker.internal', 'gateway.docker.internal', 'host.containers.internal', 'printer.local', 'router.home.arpa', 'intranet',
]

/** Names of everybody's that lead to this machine, or may by the next question. */
export const NAMES_LEADING_HOME: readonly string[] = [
  'localtest.me', 'lvh.me', 'vcap.me', 'fbi.com.localtest.me', '127.0.0.1.nip.io', '7f000001.nip.io', '10.0.0.1.nip.io', '169-254-169-254.sslip.io', '127-0-0-1.sslip.io', 'customer.127.0.0.1.nip.io', 'spoofed.burpcollaborator.net', 'rebind.network', '7f000001.c0a80001.rbndr.us', 'make-127-0-0-1-rr.1u.ms', 'localhost.example.com', '127.0.0.1.example.com', 'ex\u00e4mple.com', 'xn--exmple-cua.com', '{127.0.0.1}', 'cname-to-internal.example.com', '127.0.0.1.1.example',
]

/** Whole URLs. `PORT` stands for a port on which somebody listens here. */
export const LOCAL_URLS: readonly string[] = [
  // A name and password, and what is taken for one.
  'http://example.com@127.0.0.1/', 'http://example.com:80@127.0.0.1/', 'http://user:password@example.com/', 'http://user@example.com/', 'http://:password@example.com/', 'http://127.0.0.1@example.com/', 'http://127.0.0.1:PORT@example.com/', 'http://example.com%40127.0.0.1/', 'http://a@b@127.0.0.1/',
  'http://127.0.0.1#@example.com/', 'http://127.0.0.1?@example.com/', 'http://127.0.0.1/@example.com', 'http://127.0.0.1;@example.com/', 'http://127.0.0.1:PORT#@example.com/', 'http://foo@127.0.0.1:PORT@example.com/', 'http://foo@127.0.0.1 @example.com/',
  // Backslashes, blanks, and characters that parsers drop.
  'http://127.0.0.1\\@example.com/', 'http://example.com\\@127.0.0.1/', 'http:\\\\127.0.0.1\\', 'http:/\\127.0.0.1/', 'http:127.0.0.1/', 'http:/127.0.0.1/', 'http:///127.0.0.1/', 'http:////127.0.0.1/', 'http://example.com\\127.0.0.1/', '\\\\127.0.0.1\\share', '//127.0.0.1/',
  'http://127.0.0.1\t/', 'http://127.0.\n0.1/', 'http://127.0.0.1\r\n/', 'h\nttp://127.0.0.1/', ' http://127.0.0.1/', 'http://127.0.0.1/ ', '\u0000http://127.0.0.1/', 'http://127.0.0.1\u0000.example.com/', 'http://127.0.0.1%00.example.com/', 'http://127.0.0.1%0d%0a.example.com/', 'http://127.0.0.1%2f.example.com/', 'http://example.com/\r\nhost: 127.0.0.1', 'http://example.com/ HTTP/1.1\r\nx: y', 'http://example.com/\u0085x', 'http://loc\talhost/',
  // Ports.
  'http://127.0.0.1:80/', 'http://127.0.0.1:443/', 'http://127.0.0.1:PORT/', 'http://127.0.0.1:0/', 'http://127.0.0.1:00080/', 'http://127.0.0.1:/', 'http://127.0.0.1:65536/', 'http://127.0.0.1:-1/', 'http://127.0.0.1:+80/', 'http://127.0.0.1:80:80/', 'http://127.0.0.1:8\u066080/', 'http://[::1]:80/', 'http://[::1]:PORT/', 'http://[::1]PORT/', 'https://127.0.0.1/', 'https://localhost:443/', 'http://example.com:22/', 'http://example.com:25/', 'http://example.com:6379/', 'http://example.com:8080/', 'https://example.com:8443/', 'http://8.8.8.8:53/', 'http://example.com:PORT/',
  // Brackets, zones.
  'http://[::1', 'http://::1/', 'http://::1]/', 'http://[::1]extra/', 'http://[[::1]]/', 'http://[127.0.0.1]/', 'http://[localhost]/', 'http://[fe80::1%25lo]/', 'http://[fe80::1%lo]/', 'http://[::1%25]/', 'http://[::1%lo]/', 'http://[::ffff:127.1]/', 'http://[::ffff:0x7f.0.0.1]/', 'http://[v1.127.0.0.1]/', 'http://[1::2::3]/',
  // No URL, or one without a host.
  '', '/', '/etc/passwd', 'localhost', '127.0.0.1', '127.0.0.1:PORT', '::1', 'http://', 'https://', 'http://.', 'http://../', 'http://?', 'http://#', 'http:', 'http', 'null', 'undefined', 'example.com/x', 'http://256.256.256.256/', 'http://127.0.0.256/', 'http://1.2.3.4.5/', 'http://08.1/', 'http://*/', 'http://a b/', 'http://<127.0.0.1>/', 'http://127.0.0.1^/',
  // Other schemes.
  'file:///etc/passwd', 'file://localhost/etc/passwd', 'file://127.0.0.1/etc/passwd', 'FILE:///etc/passwd', 'file:/etc/passwd', 'gopher://127.0.0.1:PORT/_GET%20/', 'ftp://127.0.0.1:PORT/x', 'ftps://127.0.0.1/', 'sftp://127.0.0.1/', 'tftp://127.0.0.1/x', 'dict://127.0.0.1:PORT/d:x', 'ldap://127.0.0.1:PORT/', 'data:text/plain,hello', 'data://127.0.0.1:PORT/,', 'javascript:fetch("http://127.0.0.1:PORT")', 'javascript://127.0.0.1:PORT/%0aalert(1)', 'blob:http://127.0.0.1:PORT/0c1d', 'about:blank', 'ws://127.0.0.1:PORT/', 'wss://127.0.0.1/', 'jar:http://127.0.0.1:PORT!/', 'view-source:http://127.0.0.1:PORT/', 'phar://x', 'php://filter/resource=/etc/passwd', 'netdoc:///etc/passwd', 'unix:/var/run/docker.sock', 'http+unix://%2Fvar%2Frun%2Fdocker.sock/info', 'smb://127.0.0.1/x', 'telnet://127.0.0.1:PORT', 'ssh://127.0.0.1', 'mailto:a@example.com', 'urn:x', 'httpx://127.0.0.1:PORT/', 'http.://127.0.0.1:PORT/', 'url:http://127.0.0.1:PORT/',
]

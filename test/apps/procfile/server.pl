# What Debian always has is enough for this.
use strict;
use warnings;
use IO::Socket::INET;

$| = 1;
$SIG{TERM} = sub { exit 0 };
my $server = IO::Socket::INET->new(LocalPort => $ENV{PORT}, Listen => 16, ReuseAddr => 1) or die "cannot listen: $!\n";
while (1) {
    my $client = $server->accept or next;
    while (defined(my $line = <$client>)) { last if $line =~ /^\r?\n$/ }
    my $body = "Hello from a script\n";
    print $client "HTTP/1.1 200 OK\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n$body";
    close $client;
}

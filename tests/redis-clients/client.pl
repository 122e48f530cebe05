# Perl's Redis as Debian publishes it: perl client.pl <port> <key>
use strict;
use warnings;
use Redis;

sub check {
  my ($what, $got, $wanted) = @_;
  die "$what: $got instead of $wanted\n" unless $got eq $wanted;
}

my ($port, $key) = @ARGV;
my $redis = Redis->new(server => "127.0.0.1:$port", password => $key);
check("incr", $redis->incr("pl:home"), 1);
my @replies;
$redis->incr("pl:home", sub { push @replies, $_[0] }) for 1 .. 300;
$redis->wait_all_responses;
check("pipeline", $replies[-1], 301);
$redis->multi;
$redis->incrby("pl:home", 2);
$redis->get("pl:home");
check("multi", join(",", $redis->exec), "303,303");
check("set", $redis->set("pl:text", "x", "EX", 60), "OK");
check("nil", defined $redis->get("pl:none") ? 1 : 0, 0);
check("zadd", $redis->zadd("pl:race", 2.5, "ann", 1, "bob"), 2);
check("zrevrange", join(",", $redis->zrevrange("pl:race", 0, -1, "WITHSCORES")), "ann,2.5,bob,1");
my %hash = (($redis->hincrby("pl:hash", "one", 4)) x 0, $redis->hgetall("pl:hash"));
check("hash", $hash{one}, 4);
eval { $redis->incr("pl:hash") };
check("wrong type", $@ =~ /WRONGTYPE/ ? 1 : 0, 1);
eval { $redis->watch("pl:home") };
check("watch", $@ =~ /WATCH is not offered here/ ? 1 : 0, 1);
eval { Redis->new(server => "127.0.0.1:$port", password => "guess") };
check("guess", $@ =~ /WRONGPASS/ ? 1 : 0, 1);
check("end", $redis->get("pl:home"), 303);

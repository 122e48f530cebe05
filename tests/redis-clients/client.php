<?php
// phpredis and Predis as Debian publishes them: php client.php <port> <key>
require "Predis/autoload.php";

function check($what, $got, $wanted) {
  if ($got === $wanted) return;
  fwrite(STDERR, "$what: " . json_encode($got) . " instead of " . json_encode($wanted) . "\n");
  exit(1);
}

function refusal($work) {
  try {
    $work();
  } catch (Exception $error) {
    return $error->getMessage();
  }
  return "nothing was refused";
}

[, $port, $key] = $argv;
$redis = new Redis();
$redis->connect("127.0.0.1", (int) $port);
check("auth", $redis->auth($key), true);
check("incr", [$redis->incr("php:home"), $redis->incrBy("php:home", 4)], [1, 5]);
$pipe = $redis->pipeline();
for ($count = 0; $count < 300; $count++) $pipe->incr("php:home");
check("pipeline", $pipe->exec(), range(6, 305));
check("multi", $redis->multi()->incr("php:home")->get("php:home")->exec(), [306, "306"]);
check("set", $redis->set("php:text", "ö", ["ex" => 60, "nx"]), true);
check("get", [$redis->get("php:text"), $redis->get("php:none")], ["ö", false]);
check("ttl", $redis->ttl("php:text") > 50, true);
check("hash", [$redis->hIncrBy("php:hash", "one", 4), $redis->hGetAll("php:hash")], [4, ["one" => "4"]]);
check("zadd", $redis->zAdd("php:race", 2.5, "ann", 1, "bob"), 2);
check("zrange", $redis->zRange("php:race", 0, -1, true), ["bob" => 1.0, "ann" => 2.5]);
check("pfcount", [$redis->pfAdd("php:readers", ["a", "b"]), $redis->pfCount("php:readers")], [1, 2]);
check("wrong type", [$redis->incr("php:hash"), substr($redis->getLastError(), 0, 9)], [false, "WRONGTYPE"]);
check("guess", str_contains(refusal(fn() => (function () use ($port) {
  $stranger = new Redis();
  $stranger->connect("127.0.0.1", (int) $port);
  $stranger->auth("guess");
})()), "WRONGPASS"), true);

$predis = new Predis\Client(["host" => "127.0.0.1", "port" => (int) $port, "password" => $key]);
check("predis incr", $predis->incr("php:home"), 307);
check("predis pipeline", $predis->pipeline(function ($pipe) {
  $pipe->incr("php:home");
  $pipe->get("php:home");
}), [308, "308"]);
check("predis transaction", $predis->transaction(function ($transaction) {
  $transaction->incrby("php:home", 2);
  $transaction->zincrby("php:race", 5, "bob");
})[0], 310);
check("predis zrevrange", $predis->zrevrange("php:race", 0, 0), ["bob"]);
check("predis watch", str_contains(refusal(fn() => $predis->watch("php:home")), "WATCH is not offered here"), true);
check("predis script", str_starts_with(refusal(fn() => $predis->eval("return 1", 0)), "ERR"), true);
check("end", $redis->get("php:home"), "310");

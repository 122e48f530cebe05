# redis-rb as Debian publishes it: ruby client.rb <port> <key>
require "redis"

def check(what, got, wanted)
  abort "#{what}: #{got.inspect} instead of #{wanted.inspect}" unless got == wanted
end

def refusal
  yield
  "nothing was refused"
rescue Redis::CommandError => error
  error.message
end

port, key = ARGV
redis = Redis.new(host: "127.0.0.1", port: port.to_i, password: key, reconnect_attempts: 0)
check "ping", redis.ping, "PONG"
check "incr", (1..3).map { redis.incr("rb:home") }, [1, 2, 3]
check "pipeline", redis.pipelined { |pipe| 300.times { pipe.incr("rb:home") } }, (4..303).to_a
transaction = redis.multi do |multi|
  multi.incrby("rb:home", 2)
  multi.get("rb:home")
end
check "multi", transaction, [305, "305"]
check "set", redis.set("rb:text", "ö", ex: 60), "OK"
check "get", redis.get("rb:text").force_encoding("UTF-8"), "ö"
check "nil", redis.get("rb:none"), nil
check "nx", redis.set("rb:text", "x", nx: true), false
check "hash", [redis.hincrby("rb:hash", "one", 4), redis.hgetall("rb:hash")], [4, { "one" => "4" }]
check "zadd", redis.zadd("rb:race", [[2.5, "ann"], [1, "bob"]]), 2
check "zrevrange", redis.zrevrange("rb:race", 0, -1, with_scores: true), [["ann", 2.5], ["bob", 1.0]]
check "pfcount", [redis.pfadd("rb:readers", %w[a b]), redis.pfcount("rb:readers")], [true, 2]
check "wrong type", refusal { redis.incr("rb:hash") }[0, 9], "WRONGTYPE"
check "watch", refusal { redis.watch("rb:home") }.include?("WATCH is not offered here"), true
check "script", refusal { redis.eval("return 1") }[0, 3], "ERR"
check "list", refusal { redis.lpush("rb:list", "x") }.include?("not what Tally is for"), true
writer = Redis.new(host: "127.0.0.1", port: port.to_i, password: key)
heard = nil
redis.subscribe("__keyspace@0__:rb:heard") do |on|
  on.subscribe { writer.set("rb:heard", "x") }
  on.message do |_, message|
    heard = message
    redis.unsubscribe
  end
end
check "message", heard, "set"
stranger = Redis.new(host: "127.0.0.1", port: port.to_i, password: "guess", reconnect_attempts: 0)
guess = begin
  stranger.incr("rb:home").to_s
rescue Redis::BaseError => error
  error.message
end
check "guess", guess.include?("WRONGPASS"), true
check "end", redis.get("rb:home"), "305"

// go-redis (gopkg.in/redis.v5) as Debian publishes it: goredis <port> <key>
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	redis "gopkg.in/redis.v5"
)

func check(what string, got, wanted interface{}) {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		fmt.Fprintf(os.Stderr, "%s: %v instead of %v\n", what, got, wanted)
		os.Exit(1)
	}
}

func main() {
	address := "127.0.0.1:" + os.Args[1]
	client := redis.NewClient(&redis.Options{Addr: address, Password: os.Args[2], MaxRetries: 0})
	check("ping", client.Ping().Val(), "PONG")
	check("large", client.Set("go:large", strings.Repeat("x", 60000), time.Minute).Err(), nil)
	for count := int64(1); count <= 3; count++ {
		check("incr", client.Incr("go:home").Val(), count)
	}
	results := make(chan error)
	for worker := 0; worker < 20; worker++ {
		go func() {
			var err error
			for count := 0; count < 10 && err == nil; count++ {
				err = client.Incr("go:home").Err()
			}
			results <- err
		}()
	}
	for worker := 0; worker < 20; worker++ {
		check("concurrent incr", <-results, nil)
	}
	pipe := client.Pipeline()
	for count := 0; count < 300; count++ {
		pipe.Incr("go:home")
	}
	_, err := pipe.Exec()
	check("pipeline", err, nil)
	transaction := client.TxPipeline()
	sum, text := transaction.IncrBy("go:home", 2), transaction.Get("go:home")
	_, err = transaction.Exec()
	check("transaction", err, nil)
	check("transaction's sum", sum.Val(), 505)
	check("transaction's text", text.Val(), "505")
	check("set", client.Set("go:text", "ö", time.Minute).Val(), "OK")
	check("get", client.Get("go:text").Val(), "ö")
	check("ttl", client.TTL("go:text").Val() > 50*time.Second, true)
	check("nil", client.Get("go:none").Err(), redis.Nil)
	check("setnx", client.SetNX("go:text", "x", 0).Val(), false)
	check("hash", client.HIncrBy("go:hash", "one", 4).Val(), 4)
	check("hgetall", client.HGetAll("go:hash").Val(), "map[one:4]")
	check("zadd", client.ZAdd("go:race", redis.Z{Score: 2.5, Member: "ann"}, redis.Z{Score: 1, Member: "bob"}).Val(), 2)
	check("zrevrange", client.ZRevRangeWithScores("go:race", 0, -1).Val(), "[{2.5 ann} {1 bob}]")
	check("pfadd", client.PFAdd("go:readers", "a", "b").Val(), 1)
	check("pfcount", client.PFCount("go:readers").Val(), 2)
	check("wrong type", strings.HasPrefix(client.Incr("go:hash").Err().Error(), "WRONGTYPE"), true)
	listener, err := client.Subscribe("__keyspace@0__:go:heard")
	check("subscribe", err, nil)
	_, err = listener.Receive()
	check("confirmation", err, nil)
	check("set", client.Set("go:heard", "x", 0).Err(), nil)
	message, err := listener.ReceiveMessage()
	check("message", err, nil)
	check("payload", message.Payload, "set")
	err = client.Watch(func(*redis.Tx) error { return nil }, "go:home")
	check("watch", strings.Contains(err.Error(), "WATCH is not offered here"), true)
	check("script", client.Eval("return 1", nil).Err() != nil, true)
	stranger := redis.NewClient(&redis.Options{Addr: address, Password: "guess", MaxRetries: 0})
	check("guess", strings.HasPrefix(stranger.Incr("go:home").Err().Error(), "WRONGPASS"), true)
	check("end", client.Get("go:home").Val(), "505")
}

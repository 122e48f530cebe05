// redigo (github.com/gomodule/redigo) as Debian publishes it: redigo <port> <key>
package main

import (
	"fmt"
	"os"

	"github.com/gomodule/redigo/redis"
)

func check(what string, got, wanted interface{}) {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		fmt.Fprintf(os.Stderr, "%s: %v instead of %v\n", what, got, wanted)
		os.Exit(1)
	}
}

func main() {
	client, err := redis.Dial("tcp", "127.0.0.1:"+os.Args[1], redis.DialPassword(os.Args[2]))
	check("dial", err, nil)
	number := func(words ...interface{}) int64 {
		reply, err := redis.Int64(client.Do(words[0].(string), words[1:]...))
		check(fmt.Sprint(words), err, nil)
		return reply
	}
	check("incr", number("INCR", "redigo:home"), 1)
	for count := 0; count < 300; count++ {
		check("send", client.Send("INCR", "redigo:home"), nil)
	}
	check("flush", client.Flush(), nil)
	for count := int64(2); count < 302; count++ {
		reply, err := redis.Int64(client.Receive())
		check("receive", err, nil)
		check("pipeline", reply, count)
	}
	check("multi", client.Send("MULTI"), nil)
	check("multi", client.Send("INCRBY", "redigo:home", 4), nil)
	check("multi", client.Send("GET", "redigo:home"), nil)
	replies, err := redis.Values(client.Do("EXEC"))
	check("exec", err, nil)
	check("exec", fmt.Sprintf("%v %s", replies[0], replies[1]), "305 305")
	text, err := redis.String(client.Do("SET", "redigo:text", "ö", "EX", 60))
	check("set", text, "OK")
	missing, err := client.Do("GET", "redigo:none")
	check("nil", missing, nil)
	check("zadd", number("ZADD", "redigo:race", 2.5, "ann"), 1)
	scores, err := redis.StringMap(client.Do("ZRANGE", "redigo:race", 0, -1, "WITHSCORES"))
	check("scores", scores, "map[ann:2.5]")
	_, err = client.Do("LPUSH", "redigo:list", "x")
	check("list", err != nil, true)
	_, err = redis.NewScript(0, "return 1").Do(client)
	check("script", err != nil, true)
	listening, err := redis.Dial("tcp", "127.0.0.1:"+os.Args[1], redis.DialPassword(os.Args[2]))
	check("dial", err, nil)
	listener := redis.PubSubConn{Conn: listening}
	check("subscribe", listener.PSubscribe("__keyevent@0__:set"), nil)
	listener.Receive()
	client.Do("SET", "redigo:heard", "x")
	message := listener.Receive().(redis.Message)
	check("message", string(message.Data), "redigo:heard")
	_, err = redis.Dial("tcp", "127.0.0.1:"+os.Args[1], redis.DialPassword("guess"))
	check("guess", err != nil, true)
	check("end", number("INCR", "redigo:home"), 306)
}

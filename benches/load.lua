-- The load of one run of wrk: one request again and again for so long, and an exact count of what was
-- answered.
--
-- Invariants: an answer is `acknowledged` only if its status and its body are as expected; all
-- others are `failed`. When the time is up, each connection waits for its answer, however long that takes, and then rests;
-- once a thread has all its answers it says DRAINED, and whoever started wrk interrupts it when all threads have said so. So
-- nothing is in flight at the end, and what a counter holds can be compared with what was acknowledged to the unit.
-- A request whose connection broke is sent again by wrk, and counts as `broken`. A server may close connections that rest.
--
-- Each thread loads a port of its own: the variable BENCH_PORTS names them, as wrk has one address for all. The variable
-- BENCH_AUTHORIZATION is sent as that header, where it is set.
--
-- Arguments after "--": seconds, method, path, file of the body or "-", its content type or
-- "-", a Lua pattern for the body of a good answer, its status, and a number of keys. Where the pattern captures a
-- number, that number is what the answer acknowledged; otherwise it is 1. With more keys than none, the text KEY in the
-- path is another of them each time, drawn evenly.
--
-- The last four are of loads whose answers are followed up: the path and the body of the second request, a Lua pattern
-- that captures an id in a good answer, and what the second request acknowledges. The text ID in that path is the id. Each
-- id is sent once, as soon as a connection is free.
--
-- The time of a run ends with its last good answer: where answers come in few bursts (a batch may take
-- a second), the rest of the run after the last burst would falsify the rate.

local ffi = require("ffi")
ffi.cdef([[
  struct timespec { long tv_sec; long tv_nsec; };
  int clock_gettime(int clock_id, struct timespec *now);
]])

-- CLOCK_MONOTONIC has another number on macOS.
local MONOTONIC = ffi.os == "OSX" and 6 or 1
local timespec = ffi.new("struct timespec")
local threads = {}

local function now_us()
  ffi.C.clock_gettime(MONOTONIC, timespec)
  return tonumber(timespec.tv_sec) * 1e6 + tonumber(timespec.tv_nsec) / 1e3
end

local ports = {}
for port in string.gmatch(os.getenv("BENCH_PORTS") or "", "%d+") do table.insert(ports, port) end

function setup(thread)
  table.insert(threads, thread)
  thread.addr = wrk.lookup("127.0.0.1", ports[#threads])[1]
end

-- Globals of each thread: `done` runs elsewhere and reads them through thread:get.
acknowledged = 0
answered = 0
failed = 0
-- Requests that were let go, sent (again, where their connection broke), and answered.
begun = 0
sent = 0
ended = 0
sample = ""
started_us = 0
answered_us = 0

-- Longer than any run: a connection that rests does not ask again.
local REST_MS = 3600 * 1000

local static_request
local follow_request
local follow_pattern
local follow_counts
local ids = {}
local expected
local good_status
local keys
local seconds
local is_drained = false

local function look_whether_drained()
  if is_drained or begun > ended or now_us() < started_us + seconds * 1e6 then return end
  is_drained = true
  io.write("DRAINED\n")
  io.stdout:flush()
end

function init(args)
  seconds = tonumber(args[1])
  local method, path, body_file, content_type = args[2], args[3], args[4], args[5]
  expected = args[6]
  good_status, keys = tonumber(args[7]), tonumber(args[8])
  local body
  if body_file ~= "-" then
    local file = assert(io.open(body_file, "rb"))
    body = file:read("*a")
    file:close()
  end
  local headers = {}
  if content_type ~= "-" then headers["Content-Type"] = content_type end
  headers["Authorization"] = os.getenv("BENCH_AUTHORIZATION")
  static_request = wrk.format(method, path, headers, body)
  if args[9] == nil then return end
  follow_request = wrk.format(method, args[9], headers, args[10])
  follow_pattern, follow_counts = args[11], tonumber(args[12])
end

function request()
  -- wrk looks at one request before it lets any go.
  if begun > 0 then
    if started_us == 0 then started_us = now_us() end
    sent = sent + 1
  end
  if #ids > 0 then return (string.gsub(follow_request, "ID", table.remove(ids), 1)) end
  if keys == 0 then return static_request end
  return (string.gsub(static_request, "KEY", "key-" .. math.random(keys), 1))
end

-- wrk asks before each request how many milliseconds to wait.
function delay()
  if started_us == 0 or now_us() < started_us + seconds * 1e6 then
    begun = begun + 1
    return 0
  end
  look_whether_drained()
  return REST_MS
end

function response(status, headers, body)
  ended = ended + 1
  local found = status == good_status and string.match(body, expected)
  if found then
    local id = follow_pattern and string.match(body, follow_pattern)
    if id then table.insert(ids, id) end
    local counts = follow_pattern and not id and follow_counts or tonumber(found) or 1
    acknowledged = acknowledged + counts
    answered = answered + 1
    answered_us = now_us()
    return
  end
  failed = failed + 1
  if sample == "" then sample = status .. " " .. string.gsub(string.sub(body, 1, 300), "%s+", " ") end
end

function done(summary, latency)
  local units, answers, failures, broken_requests, first, duration_us = 0, 0, 0, 0, "", 0
  for _, thread in ipairs(threads) do
    units = units + thread:get("acknowledged")
    answers = answers + thread:get("answered")
    failures = failures + thread:get("failed")
    broken_requests = broken_requests + thread:get("sent") - thread:get("begun")
    if first == "" then first = thread:get("sample") end
    duration_us = math.max(duration_us, thread:get("answered_us") - thread:get("started_us"))
  end
  io.write(string.format(
    'RESULT {"duration_us":%d,"acknowledged":%d,"answers":%d,"failed":%d,"socket_errors":%d,"p50_us":%d,"p99_us":%d}\n',
    duration_us, units, answers, failures, summary.errors.connect + broken_requests,
    latency:percentile(50), latency:percentile(99)
  ))
  if first ~= "" then io.write("SAMPLE " .. first .. "\n") end
end

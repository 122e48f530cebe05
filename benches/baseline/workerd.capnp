# The baseline on plain workerd. The port and the folder of the objects are given when it starts:
# --socket-addr http=127.0.0.1:0 --directory-path objects=/absolute/folder
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  sockets = [ (name = "http", address = "127.0.0.1:0", http = (), service = "baseline") ],
  services = [
    (name = "baseline", worker = .baseline),
    (name = "objects", disk = (writable = true)),
  ],
);

const baseline :Workerd.Worker = (
  # The date of wrangler.jsonc, so that both run by the same rules of the platform.
  compatibilityDate = "2026-11-17",
  modules = [ (name = "worker.js", esModule = embed "worker.js") ],
  bindings = [
    (name = "COUNTERS", durableObjectNamespace = "Counter"),
    (name = "LIMITERS", durableObjectNamespace = "RateLimiter"),
    (name = "STORED_LIMITERS", durableObjectNamespace = "StoredLimiter"),
  ],
  durableObjectNamespaces = [
    (className = "Counter", uniqueKey = "baseline-counter", enableSql = true),
    (className = "RateLimiter", uniqueKey = "baseline-rate-limiter", enableSql = true),
    (className = "StoredLimiter", uniqueKey = "baseline-stored-limiter", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "objects"),
);

// How each server is run: its configuration, its log of accesses, and how logrotate rotates that.
import { openSync, statSync } from "node:fs";
import { FILES } from "./requests.mjs";
import { isRoot, until } from "./programs.mjs";

// How long a server waits for a request that never ends.
const HEADER_SECONDS = 1;
/** A request that is sent until a server logs; it counts nothing. */
export const READY = "/missing/until-it-logs";
const APACHE_MODULES = "/usr/lib/apache2/modules";

/** Writes the files of the site, and returns their folder. */
function site(place) {
  for (const name of FILES) place.file(`site/${name}`, `${name}\n`.repeat(20));
  return place.file("site");
}

const NGINX_JSON = `log_format json escape=json '{"time_iso8601":"$time_iso8601","remote_addr":"$remote_addr",'
  '"request":"$request","request_uri":"$request_uri","request_method":"$request_method","status":$status,'
  '"http_referer":"$http_referer","http_user_agent":"$http_user_agent"}';`;

async function nginx(place, { port, http2Port }) {
  const listen = (number, more) => `listen 127.0.0.1:${number}${more}; listen [::1]:${number}${more};`;
  const file = place.file("nginx.conf", `${isRoot ? "user root;" : ""}
    daemon off; worker_processes 1; pid nginx.pid; error_log nginx-errors.log;
    events {}
    http {
      types { text/html html; }
      client_body_temp_path body; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
      ${NGINX_JSON}
      access_log ${place.file("access.log")};
      access_log ${place.file("json.log")} json;
      client_header_timeout ${HEADER_SECONDS}s;
      server { ${listen(port, "")} ${listen(http2Port, " http2")} root ${site(place)}; }
    }`);
  const job = await place.start("nginx", ["-p", place.folder, "-e", "nginx-errors.log", "-c", file], { port });
  return { logs: ["access.log", "json.log"], job, postrotate: `kill -USR1 ${job.pid}` };
}

async function apache(place, { port, http2Port }) {
  const modules = ["mpm_event", "authz_core", "dir", "http2", "reqtimeout"];
  const load = modules.map((name) => `LoadModule ${name}_module ${APACHE_MODULES}/mod_${name}.so`);
  // Debian's names of its formats, as its apache2.conf has them.
  const file = place.file("apache.conf", `${load.join("\n")}
ServerRoot ${place.folder}
ServerName localhost
PidFile apache.pid
DefaultRuntimeDir ${place.folder}
ErrorLog ${place.file("apache-errors.log")}
${[port, http2Port].flatMap((number) => [`Listen 127.0.0.1:${number}`, `Listen [::1]:${number}`]).join("\n")}
${isRoot ? "User www-data\nGroup www-data" : ""}
StartServers 1
ThreadsPerChild 8
MinSpareThreads 1
MaxSpareThreads 8
MaxRequestWorkers 8
Protocols h2c http/1.1
DocumentRoot ${site(place)}
DirectoryIndex index.html
RequestReadTimeout header=${HEADER_SECONDS}
LogFormat "%v:%p %h %l %u %t \\"%r\\" %>s %O \\"%{Referer}i\\" \\"%{User-Agent}i\\"" vhost_combined
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{Referer}i\\" \\"%{User-Agent}i\\"" combined
CustomLog ${place.file("access.log")} combined
CustomLog ${place.file("vhosts.log")} vhost_combined
`);
  const job = await place.start("apache2", ["-f", file, "-DFOREGROUND"], { port });
  return { logs: ["access.log", "vhosts.log"], job, postrotate: `kill -USR1 ${job.pid}` };
}

async function caddy(place, { port, http2Port }) {
  const file = place.file("Caddyfile", `{
	admin off
	auto_https off
	servers {
		protocols h1 h2c
		timeouts {
			read_header ${HEADER_SECONDS}s
		}
	}
}
http://:${port}, http://:${http2Port} {
	root * ${site(place)}
	file_server
	log {
		output file ${place.file("access.log")} {
			roll_disabled
		}
	}
}
`);
  const env = { XDG_DATA_HOME: place.folder, XDG_CONFIG_HOME: place.folder };
  const job = await place.start("caddy", ["run", "--adapter", "caddyfile", "--config", file], { port, env });
  return { logs: ["access.log"], job, copies: true };
}

async function lighttpd(place, { port, http2Port }) {
  const listen = [`127.0.0.1:${http2Port}`, `[::1]:${port}`, `[::1]:${http2Port}`];
  const file = place.file("lighttpd.conf", `server.modules = ("mod_accesslog")
server.document-root = "${site(place)}"
server.bind = "127.0.0.1"
server.port = ${port}
${listen.map((address) => `$SERVER["socket"] == "${address}" {}`).join("\n")}
server.errorlog = "${place.file("lighttpd-errors.log")}"
server.max-read-idle = ${HEADER_SECONDS}
index-file.names = ("index.html")
mimetype.assign = (".html" => "text/html")
accesslog.filename = "${place.file("access.log")}"
`);
  const job = await place.start("lighttpd", ["-D", "-f", file], { port });
  return { logs: ["access.log"], job, postrotate: `kill -HUP ${job.pid}` };
}

async function haproxy(place, { port, http2Port, httplog = "option httplog clf" }) {
  const bind = (number, more) => `    bind 127.0.0.1:${number}${more}\n    bind [::1]:${number}${more}`;
  const file = place.file("haproxy.cfg", `global
    log stdout len 65535 format raw local0
    maxconn 200
defaults
    mode http
    log global
    ${httplog}
    timeout client 10s
    timeout http-request ${HEADER_SECONDS}s
frontend site
${bind(port, "")}
${bind(http2Port, " proto h2")}
    http-request return status 404 if { path_sub missing }
    http-request return status 200 content-type text/html string ok
`);
  const stdout = openSync(place.file("access.log"), "a");
  const job = await place.start("haproxy", ["-db", "-f", file], { port, stdout });
  return { logs: ["access.log"], job, copies: true, saysNoAgents: true };
}

async function varnish(place, { port }) {
  const file = place.file("site.vcl", `vcl 4.1;
backend none none;
sub vcl_recv {
  if (req.url ~ "missing") { return (synth(404)); }
  return (synth(200));
}
`);
  const name = place.file("varnish");
  await place.start("varnishd", [
    "-F", "-n", name, "-f", file, "-a", `v4=127.0.0.1:${port}`, "-a", `v6=[::1]:${port}`, "-j", "none",
    "-s", "malloc,8m", "-p", "feature=+http2", "-p", `timeout_idle=${HEADER_SECONDS}`, "-p", "thread_pool_min=10",
  ], { port });
  const log = place.file("access.log", "");
  const job = await place.start("varnishncsa", ["-n", name, "-a", "-w", log]);
  // It logs what comes after it has found the other's memory.
  await until("varnishncsa logs", async () => {
    await fetch(`http://127.0.0.1:${port}${READY}`);
    return statSync(log).size > 0;
  });
  // varnishncsa puts the host before the target, and this one it takes for a path.
  const without = ["http://shop.example"];
  // SIGHUP ends it in the foreground, so its log is copied and cut.
  return { logs: ["access.log"], job, copies: true, http2Port: port, without };
}

/** Each server: the programs that it needs, and what starts it. */
export const ALL = {
  nginx: { needs: ["nginx"], start: nginx },
  apache: { needs: ["apache2"], start: apache },
  caddy: { needs: ["caddy"], start: caddy },
  lighttpd: { needs: ["lighttpd"], start: lighttpd },
  haproxy: { needs: ["haproxy"], start: haproxy },
  varnish: { needs: ["varnishd", "varnishncsa"], start: varnish },
};

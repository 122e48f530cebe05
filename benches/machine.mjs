// What a table of ratios was measured on and with: without it nobody can say why two of them differ.
import { spawnSync } from "node:child_process";
import { cpus, loadavg } from "node:os";
import workerd from "workerd";

// Returns what a program prints, or undefined where it could not be run.
function outputOf(cwd, program, ...args) {
  const { status, stdout } = spawnSync(program, args, { cwd, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

/**
 * Returns sentences on the machine, the disk under `data` and the versions. root: the project's folder.
 * before: the load average before the load.
 */
export function machine({ root, data, wrk, before }) {
  const commit = outputOf(root, "git", "rev-parse", "--short", "HEAD") ?? "unknown";
  const changed = outputOf(root, "git", "status", "--porcelain") ? " with uncommitted changes" : "";
  const disk = outputOf(root, "stat", "-f", "-c", "%T", data) ?? "an unknown file system";
  return [
    `${cpus().length} cores of ${cpus()[0]?.model ?? "an unknown model"}; load average ${before.toFixed(2)} before, ${loadavg()[0].toFixed(2)} after (the benchmark's own included)`,
    `data on ${disk}`,
    `${outputOf(root, workerd.default ?? workerd, "--version") ?? "workerd of an unknown version"}, wrk ${wrk}, node ${process.version}, commit ${commit}${changed}`,
  ];
}

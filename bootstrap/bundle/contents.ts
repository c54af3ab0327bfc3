/** What does a bundle consist of, and where? The repository's own layout, with its programs and images made already. */
import type { FileSource } from '../images/recipes.ts';
import { type Bundle, bundleFile, programsFolder } from '../origin.ts';

/** Everything is below it in the archive. */
export const topFolder = '/flynn';

/** The programs that a host has, by their file's name. */
const programs = {
  'host-agent.mjs': 'layer0/host-agent/main.ts',
  'flynn-host.mjs': 'bootstrap/flynn-host.ts',
  'flynn.mjs': 'cli/main.ts',
  'flynn-discovery.mjs': 'layer0/discovery/cli.ts',
  'flynn-runner.mjs': 'layer1/runner/main.ts',
} as const;

const scripts = [
  'bin/flynn',
  'bin/flynn-host',
  'bin/flynn-discovery',
  'bin/flynn-runner',
  'bootstrap/install',
  'bootstrap/packages',
  'bootstrap/supervise',
  'bootstrap/choose-version',
] as const;

const at = (path: string): string => `${topFolder}/${path}`;

/** But for the images and the digests. What the programs need beside them is found as in the repository. */
export function sourcesOf(bundle: Bundle): FileSource[] {
  const text = `${JSON.stringify(bundle, undefined, 2)}\n`;
  return [
    { type: 'text', path: at(bundleFile), mode: 0o644, text },
    ...scripts.map((source) => ({ type: 'repository', source, path: at(source), mode: 0o755 }) as const),
    { type: 'repository', source: 'bootstrap/sample', path: at('bootstrap/sample'), mode: 0o644 },
    { type: 'repository', source: 'LICENSE', path: at('LICENSE'), mode: 0o644 },
    ...Object.entries(programs).map(
      ([name, entry]) => ({ type: 'bundle', entry, path: at(`${programsFolder}/${name}`) }) as const,
    ),
    { type: 'node', path: at('node_modules/.bin/node') },
  ];
}

/** The version as part of a file's name, a folder's and of what people type. `undefined` for what is none. */
export function versionIn(text: string): string | undefined {
  return /^\d+\.\d+\.\d+(-[0-9a-z]+(\.[0-9a-z]+)*)?$/.test(text) ? text : undefined;
}

export function platformOf(arch: string): string {
  return `linux-${arch}`;
}

/** Host keys of clusters for ssh, beside the list of clusters: so that nobody has to take one on trust. */
import { join } from 'node:path';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';

type Told = Readonly<{ controllerUrl: string; gitUrl: string; gitHostKey: string | undefined }>;

/** Only what came over TLS is believed. `gitUrl`: `ssh://git@host:port`; a key that was known for that place is replaced. */
export async function rememberHostKey(directory: string, { controllerUrl, gitUrl, gitHostKey }: Told): Promise<void> {
  if (gitHostKey === undefined || !controllerUrl.startsWith('https:')) return;
  const { hostname, port } = new URL(gitUrl);
  const file = join(directory, 'known_hosts');
  // What is there and cannot be read is not to be written over.
  const text = withHostKey((await readTextFile(file)) ?? '', { host: hostname, port: Number(port || 22) }, gitHostKey);
  await writeFileAtomic(file, text, { mode: 0o644 });
}

type SshPlace = Readonly<{ host: string; port: number }>;

/** What a known_hosts file has that place as. */
export function knownNameOf({ host, port }: SshPlace): string {
  return port === 22 ? host : `[${host}]:${port}`;
}

/** The lines of a known_hosts file with this key for this place. */
export function withHostKey(text: string, place: SshPlace, publicKey: string): string {
  const [type = '', key = ''] = publicKey.trim().split(/\s+/);
  const name = knownNameOf(place);
  const others = text.split('\n').filter((line) => line !== '' && !line.startsWith(`${name} `));
  return [...others, `${name} ${type} ${key}`, ''].join('\n');
}

/** How does Cargo reach crates? */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Cargo reads which registry stands for crates.io from no variable, but from files: in its own folder is the one that counts
 * least, so that what the repository says counts before the cluster's.
 */
export async function writeCargoConfig(home: string, env: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(home, { recursive: true });
  // The folder is kept: what a build before has left there is nobody's word.
  for (const name of ['config', 'config.toml', 'credentials', 'credentials.toml'])
    await rm(join(home, name), { recursive: true, force: true });
  const config = cargoConfig(env);
  if (config !== '') await writeFile(join(home, 'config.toml'), config);
}

/** As a registry it may have a token: CARGO_REGISTRIES_FLYNN_MIRROR_TOKEN. */
export function cargoConfig(env: Readonly<Record<string, string>>): string {
  const mirror = env['CARGO_MIRROR_URL'] ?? '';
  if (mirror === '') return '';
  return `[source.crates-io]\nreplace-with = "flynn-mirror"\n\n[registries.flynn-mirror]\nindex = ${JSON.stringify(mirror)}\n`;
}

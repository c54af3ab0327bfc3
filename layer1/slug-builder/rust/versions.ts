/** Which Rust does an app ask for, and which is there? Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { readToml } from '../toml.ts';
import { type Wish, compareVersions } from '../wanted-version.ts';

const otherwise =
  'or commit a Dockerfile that begins with an image of that Rust, or name a buildpack that brings it (flynn env set BUILDPACK_URL=https://…)';

export type Rust = { version: string; packages: readonly [string, string] };

/** Of the names of Debian's packages: its Rust for all, and a newer one that it keeps for the browsers it builds. */
export const rustLibraries = /^libstd-rust-((?:web-)?\d+\.\d+)$/;

/** What an older one compiles a newer one does too: the newest of those that `rustLibraries` finds. */
export function newestRust(found: readonly string[]): Rust {
  const versions = found.map((name) => ({
    version: name.replace('web-', ''),
    suffix: name.startsWith('web-') ? '-web' : '',
  }));
  const [newest] = versions.toSorted((a, b) => compareVersions(b.version, a.version));
  if (newest === undefined)
    throw new FlynnError('unavailable', 'there is no Rust among the packages this cluster builds with');
  const { version, suffix } = newest;
  return { version, packages: [`rustc${suffix}`, `cargo${suffix}`] };
}

const toolchainSchema = z.object({ toolchain: z.object({ channel: z.string().optional() }).optional() });

/** Of a `rust-toolchain.toml`, or a `rust-toolchain`, which may be one word. Undefined: any that is released. */
export function wishOfToolchain(text: string, file: string): Wish | undefined {
  const channel = /^\s*\[/m.test(text)
    ? readToml(text, toolchainSchema, { name: file }).toolchain?.channel
    : text.replace(/^\uFEFF/, '').trim();
  if (channel === undefined || /^(?:stable(?:-[\w-]+)?)?$/.test(channel)) return undefined;
  const version = /^(\d+(?:\.\d+){0,2})(?:-[\w-]+)?$/.exec(channel)?.[1];
  if (version !== undefined) return { version, file };
  throw new FlynnError(
    'invalid',
    `${file} asks for Rust "${channel.slice(0, 60)}", and builds here have the newest one that Debian has released: write channel = "stable" if the app needs no more, ${otherwise}`,
  );
}

/** Of each Rust there is the newest correction. `invalid` says what can be done. */
export function checkRust({ version, file }: Wish, available: string): void {
  const asked = version.split('.').slice(0, 2).join('.');
  if (compareVersions(asked, available) <= 0) return;
  throw new FlynnError(
    'invalid',
    `${file} asks for Rust ${version}, and the newest there is in Debian is ${available}: ask for that or an older one, ${otherwise}`,
  );
}

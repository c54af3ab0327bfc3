/** Which package has the programs of a tool that are compiled for this kind of machine? */
import semver from 'semver';

export type NativePackage = { name: string; version: string };

/**
 * Of those a tool's package names as optional, one for each kind of machine: that for Linux with glibc, by its name, as
 * "@pnpm/exe.linux-x64". Undefined when there is none: the tool is all in its own package.
 */
export function nativePackage(
  optionalDependencies: Readonly<Record<string, string>>,
  arch: string,
): NativePackage | undefined {
  const name = Object.keys(optionalDependencies).find(
    (one) => /(?<=[./-])linux-([a-z0-9]+)(?:-(?:gnu|glibc))?$/.exec(one)?.[1] === arch,
  );
  const version = semver.valid(name === undefined ? undefined : optionalDependencies[name]);
  return name === undefined || version === null ? undefined : { name, version };
}

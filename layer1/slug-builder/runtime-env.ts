/** Which variables lead programs to a runtime, while the app is built and when it runs? */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';

/** Where runtimes are when the slug runs. */
const runtimeRoot = '/opt/flynn';
/** Where the app is when the slug runs. */
export const slugDir = '/app';

export type RuntimeEnv = {
  /** Put in front of what is there. */
  paths: Readonly<Record<string, readonly string[]>>;
  /** Defaults: who says otherwise is heard. */
  values: Readonly<Record<string, string>>;
};

const triples: Readonly<Record<string, string>> = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };
export const debianTriple = triples[process.arch] ?? `${process.arch}-linux-gnu`;

/** Of a folder that Debian's packages were unpacked into. */
export function debianPaths(dir: string): { PATH: string[]; LD_LIBRARY_PATH: string[] } {
  return { PATH: [`${dir}/usr/bin`], LD_LIBRARY_PATH: [`${dir}/usr/lib/${debianTriple}`] };
}

export function atRunTime(name: string): string {
  return posix.join(runtimeRoot, name);
}

export function withRuntime(
  env: Readonly<Record<string, string>>,
  { paths, values }: RuntimeEnv,
): Record<string, string> {
  const joined = Object.entries(paths).map(([name, dirs]) => {
    const before = env[name];
    return [name, [...dirs, ...(before === undefined || before === '' ? [] : [before])].join(':')] as const;
  });
  return { ...values, ...env, ...Object.fromEntries(joined) };
}

/** The script the slug runner sources before it starts a process. */
export function profileOf({ paths, values }: RuntimeEnv): string {
  const lines = [
    ...Object.entries(paths).map(([name, dirs]) => `export ${name}="${dirs.join(':')}\${${name}:+:$${name}}"`),
    ...Object.entries(values).map(([name, value]) => `export ${name}="\${${name}-${value}}"`),
  ];
  return `${lines.join('\n')}\n`;
}

export async function writeProfileScript(appDir: string, name: string, env: RuntimeEnv): Promise<void> {
  await mkdir(join(appDir, '.profile.d'), { recursive: true });
  await writeFile(join(appDir, '.profile.d', `${name}.sh`), profileOf(env));
}

/** Debian's Java: where it is, how programs are led there, and what it trusts. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { type RuntimeEnv, debianPaths } from '../runtime-env.ts';

const architectures: Readonly<Record<string, string>> = { x64: 'amd64' };

/** Below the folder that its packages were unpacked into. */
export function homeOf(dir: string, version: string): string {
  return `${dir}/usr/lib/jvm/java-${version}-openjdk-${architectures[process.arch] ?? process.arch}`;
}

export function javaEnv(dir: string, version: string): RuntimeEnv {
  const home = homeOf(dir, version);
  return {
    paths: { PATH: [`${home}/bin`], LD_LIBRARY_PATH: debianPaths(dir).LD_LIBRARY_PATH },
    values: {
      JAVA_HOME: home,
      // Otherwise three quarters of the job's memory stay unused.
      JAVA_TOOL_OPTIONS: '-XX:MaxRAMPercentage=70 -XX:+ExitOnOutOfMemoryError',
    },
  };
}

/** The certificates that everything else here trusts, as Java reads them. Without a password there is nothing random in it. */
export async function trust(dir: string, version: string, context: BuildContext): Promise<void> {
  const { baseEnv, layout, signal } = context;
  const bundle = baseEnv['SSL_CERT_FILE'] ?? '/etc/ssl/certs/ca-certificates.crt';
  const store = join(homeOf(dir, version), 'lib/security/cacerts');
  await rm(store, { force: true });
  const flags = ['-nokeys', '-jdktrust', 'anyExtendedKeyUsage', '-certpbe', 'NONE', '-nomac', '-passout', 'pass:'];
  await runForOutput(['openssl', 'pkcs12', '-export', '-in', bundle, '-out', store, ...flags], {
    cwd: layout.scratchDir,
    env: baseEnv,
    signal,
  });
}

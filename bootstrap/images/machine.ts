/**
 * How this machine reaches Debian's and npm's packages. Builds use the same ways; nothing of it is written in a file of
 * the repository.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

export type Machine = Readonly<{
  /** Lines of an apt.conf: proxies and the like. */
  aptOptions: readonly string[];
  /** Lines of a sources.list for Debian's archive, if the machine itself names a mirror. */
  aptSources: readonly string[];
  /** The bundle of certificates the machine trusts. */
  certificatesFile?: string;
  npmRegistry?: string;
  /** http_proxy and its kin, as they are set. */
  proxies: Readonly<Record<string, string>>;
}>;

const proxyNames = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const;

export async function readMachine(suite: string, env: Record<string, string | undefined>): Promise<Machine> {
  const [options, targets, registry, npmCertificates] = await Promise.all([
    output('apt-config', ['dump']),
    output('apt-get', ['indextargets', '--format', '$(ORIGIN)|$(LABEL)|$(REPO_URI)', 'Created-By: Packages']),
    output('npm', ['config', 'get', 'registry']),
    output('npm', ['config', 'get', 'cafile']),
  ]);
  const certificatesFile = [
    env['NODE_EXTRA_CA_CERTS'],
    npmCertificates.trim(),
    env['SSL_CERT_FILE'],
    '/etc/ssl/certs/ca-certificates.crt',
    '/etc/pki/tls/certs/ca-bundle.crt',
  ].find((file) => file !== undefined && file.startsWith('/') && existsSync(file));
  return {
    aptOptions: aptOptionsOf(options),
    aptSources: aptSourcesOf(targets, suite),
    ...(certificatesFile === undefined ? {} : { certificatesFile }),
    ...(/^https?:/.test(registry) ? { npmRegistry: registry.trim() } : {}),
    proxies: Object.fromEntries(
      proxyNames.flatMap((name) => (env[name] === undefined || env[name] === '' ? [] : [[name, env[name]]])),
    ),
  };
}

/** Nothing when the program is not there: the machine then has no such settings. */
async function output(program: string, args: readonly string[]): Promise<string> {
  try {
    return (await run(program, args, { timeout: 20_000 })).stdout;
  } catch {
    return '';
  }
}

/**
 * Of `apt-config dump`: how to connect, not what to do around installing. Paths of the machine's own files do not hold in a
 * container.
 */
export function aptOptionsOf(dump: string): string[] {
  return dump
    .split('\n')
    .filter((line) => /^Acquire::(https?(::|\s)|Check-Valid-Until|Check-Date|Retries|ForceIPv[46])/.test(line))
    .filter((line) => !/Auto-?Detect|CaInfo|CaPath|SslCert|SslKey/i.test(line) && !line.endsWith(' "";'));
}

/** The machine's mirror of Debian, if it runs Debian: most people who name one do so for a reason. */
export function aptSourcesOf(indexTargets: string, suite: string): string[] {
  const mirrors = new Map<string, string>();
  for (const line of indexTargets.split('\n')) {
    const [origin, label, uri] = line.split('|');
    if (origin !== 'Debian' || label === undefined || uri === undefined || !/^https?:/.test(uri)) continue;
    if (!mirrors.has(label)) mirrors.set(label, uri);
  }
  const main = mirrors.get('Debian');
  const security = mirrors.get('Debian-Security');
  if (main === undefined) return [];
  return [
    `deb ${main} ${suite} main`,
    `deb ${main} ${suite}-updates main`,
    ...(security === undefined ? [] : [`deb ${security} ${suite}-security main`]),
  ];
}

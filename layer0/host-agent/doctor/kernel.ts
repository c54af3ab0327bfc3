/** Is the kernel set up as the platform needs it? */
import { readFile } from 'node:fs/promises';
import type { Found } from './finding.ts';

type Wanted = Readonly<{
  path: string;
  isRight: (text: string) => boolean;
  /** What to set it to. */
  value: string;
  severity: Found['severity'];
  why: string;
}>;

const wanted: readonly Wanted[] = [
  {
    path: 'net/ipv4/ip_forward',
    isRight: (text) => text === '1',
    value: '1',
    severity: 'critical',
    why: 'containers reach neither other hosts nor the outside; the agent sets it, so something else takes it back',
  },
  {
    path: 'net/core/somaxconn',
    isRight: (text) => Number(text) >= 1_024,
    value: '4096',
    severity: 'warning',
    why: 'connections that arrive at once are refused before the router sees them',
  },
  {
    path: 'net/ipv4/neigh/default/gc_thresh3',
    isRight: (text) => Number(text) >= 1_024,
    value: '4096',
    severity: 'warning',
    why: 'with more containers and hosts than that, neighbours are forgotten and connections fail at random',
  },
  {
    path: 'kernel/pid_max',
    isRight: (text) => Number(text) >= 32_768,
    value: '4194304',
    severity: 'warning',
    why: 'a few hundred containers use them up, and nothing starts any more',
  },
];

export type KernelSettings = Readonly<{
  /** By path below /proc/sys; undefined for one this kernel does not have. */
  sysctls: ReadonlyMap<string, string | undefined>;
  /** Controllers of the control groups of version 2, or undefined where there is only version 1. */
  controllers: readonly string[] | undefined;
}>;

export function kernelFindings(subject: string, { sysctls, controllers }: KernelSettings): Found[] {
  const findings = wanted.flatMap(({ path, isRight, value, severity, why }): Found[] => {
    const text = sysctls.get(path);
    if (text === undefined || isRight(text)) return [];
    const name = path.replaceAll('/', '.');
    const remedy = `sysctl -w ${name}=${value}, and the same line in /etc/sysctl.d/ for the next boot`;
    return [{ severity, subject, matter: name, what: `${name} is ${text}`, why, remedy }];
  });
  const missing =
    controllers === undefined ? [] : ['memory', 'cpu', 'pids'].filter((one) => !controllers.includes(one));
  if (missing.length === 0) return findings;
  return [
    ...findings,
    {
      severity: 'warning',
      subject,
      matter: 'groups',
      what: `the kernel does not control ${missing.join(', ')} by groups`,
      why: 'limits of jobs do not hold: one job may take what all others need',
      remedy: 'boot with cgroup_enable=memory (on some boards swapaccount=1 too) on the kernel command line',
    },
  ];
}

export async function readKernelSettings(): Promise<KernelSettings> {
  const read = async (path: string): Promise<string | undefined> =>
    readFile(path, 'utf8').then(
      (text) => text.trim(),
      () => undefined,
    );
  const texts = await Promise.all(wanted.map(async ({ path }) => [path, await read(`/proc/sys/${path}`)] as const));
  const controllers = await read('/sys/fs/cgroup/cgroup.controllers');
  return { sysctls: new Map(texts), controllers: controllers?.split(' ') };
}

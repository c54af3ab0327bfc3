/** Which name servers does this machine ask, and are its containers to? */
import { isIPv4 } from 'node:net';
import { parseResolvers } from '@flynn/discovery/forward';
import { readTextFile } from '@flynn/kit/files';

/** Where the machine asks systemd-resolved, those that one asks are in its own file. */
const files = { machine: '/etc/resolv.conf', resolved: '/run/systemd/resolve/resolv.conf' };
const ofResolved = new Set(['127.0.0.53', '127.0.0.54']);

/** `given`: for containers, instead of the machine's, with commas. */
export async function readNameServers(given: string): Promise<string[]> {
  const [machine = '', resolved = ''] = await Promise.all([files.machine, files.resolved].map(readTextFile));
  return nameServersIn({ machine, resolved, given });
}

/** IPv4 addresses. The second file is there too where nobody asks that resolver, with what it was told once. */
export function nameServersIn({
  machine,
  resolved,
  given,
}: Record<'machine' | 'resolved' | 'given', string>): string[] {
  const asked = addressesIn(machine);
  const behind = asked.some((address) => ofResolved.has(address)) ? addressesIn(resolved) : [];
  const ofContainers = given.split(',').map((one) => one.trim().replace(/:\d+$/, ''));
  return [...new Set([...asked, ...behind, ...ofContainers])].filter((address) => isIPv4(address));
}

function addressesIn(resolvConf: string): string[] {
  return parseResolvers(resolvConf, []).map(({ address }) => address);
}

/** In which order files of tests begin, so that none that takes minutes begins last and has both cores to itself. */

/**
 * Files that take a minute and more. Those that mostly wait, for leases, elections and deadlines, and those that mostly compute
 * take turns: each kind alone would leave the cores idle, or its tests late. One that is not named here begins after these.
 */
export const longFiles: readonly string[] = [
  'layer1/appliances/postgres/client',
  'layer0/host-agent/network/wireguard',
  'layer1/slug-builder/java/java',
  'layer1/appliances/postgres/history',
  'layer1/slug-builder/build',
  'layer0/host-agent/network/network',
  'layer1/slug-builder/nodejs/managers',
  'layer1/appliances/redis/members',
  'layer1/slug-builder/copy-stages',
  'layer1/appliances/postgres/restore',
  'layer1/slug-builder/dockerfile',
  'layer1/appliances/mysql/members',
  'layer0/store/etcd-cluster',
  'layer1/slug-builder/php/php',
  'layer0/discovery/registry',
  'layer1/slug-builder/python/python',
  'layer1/appliances/postgres/logins',
  'layer1/slug-builder/limits',
  'layer1/git-receiver/receiver',
  'layer1/slug-builder/ruby/ruby',
  'layer1/appliances/postgres/history-room',
  'layer1/slug-builder/go/go',
  'layer1/appliances/redis/client',
  'layer1/slug-builder/python/private-index',
  'layer0/store/etcd-restore',
  'layer1/slug-builder/rust/rust',
  'layer0/host-agent/docker/builds',
  'layer1/router/hostile/fuzz',
  'layer1/git-receiver/fetches',
  'layer1/router/workers/handover',
  'layer1/runner/outage',
  'layer1/router/hostile/crowd',
].map((name) => `${name}.integration.test.ts`);

export function startOrder(files: readonly string[]): string[] {
  const places = new Map(longFiles.map((file, at) => [file, at]));
  const placeOf = (file: string): number => places.get(file) ?? longFiles.length;
  return files.toSorted((a, b) => placeOf(a) - placeOf(b));
}

/** Under which name, and with which key, this machine's flynn command is to know a cluster: what people entered there is theirs. */
import { type Cluster, type Clusters, isSameAddress, isSamePlace } from '@flynn/cli/clusters/clusters';

/** What the cluster had before, by which it may be known: root keys beside its own, and domains. */
export type Former = Readonly<{ keys?: readonly string[]; domains?: readonly string[] }>;

export type Place = Pick<Cluster, 'controllerUrl' | 'ca'>;

export type KnownAs = Readonly<{
  entry: Cluster;
  /** A token of somebody is there, and stays. */
  isByToken: boolean;
  /** Another cluster has the name. */
  other?: Cluster;
}>;

/** With the root key, but where somebody has a token: what they do is to be theirs. Another cluster's key is never lost. */
export function knownAs({ clusters }: Clusters, cluster: Cluster, former: Former = {}): KnownAs {
  const rootKeys = new Set([cluster.key, ...(former.keys ?? [])]);
  let other: Cluster | undefined;
  for (let count = 1; ; count += 1) {
    const name = nameOf(cluster.name, count);
    const found = clusters.find((one) => one.name === name);
    const named = { ...cluster, name };
    const isOthers = other === undefined ? {} : { other };
    if (found === undefined) return { entry: named, isByToken: false, ...isOthers };
    if (rootKeys.has(found.key)) return { entry: renewed(found, named), isByToken: false, ...isOthers };
    if (isTokenFor(found, placeFor(found, cluster, former))) {
      return { entry: { ...renewed(found, named), key: found.key }, isByToken: true, ...isOthers };
    }
    // One that was there before: nothing answers to its key at this address any more.
    if (isSameAddress(found, cluster)) return { entry: named, isByToken: false, ...isOthers };
    other ??= found;
  }
}

export function configuredText(directory: string, { entry, isByToken, other }: KnownAs): string {
  const token = isByToken ? `, where ${entry.name} keeps the token that it has` : '';
  if (other === undefined) return `configured in ${directory}${token}`;
  const why = `${other.name} is another cluster there, ${other.controllerUrl}`;
  return `configured in ${directory} as ${entry.name}${token}, for ${why}: flynn -c ${entry.name}`;
}

/** Whether an entry of this name may be one of the cluster, also where another had the name. */
export function isNameOf(cluster: string, name: string): boolean {
  return name === cluster || (name.startsWith(`${cluster}-`) && /^[0-9]+$/.test(name.slice(cluster.length + 1)));
}

function nameOf(cluster: string, count: number): string {
  return count === 1 ? cluster : `${cluster}-${count}`;
}

/** All tokens are written so. Root keys begin otherwise. */
export function isTokenFor(one: Cluster, place: Place): boolean {
  return one.key.startsWith('flynn_') && isSamePlace(one, place);
}

/** Where one of this entry's domain would be: it may be a former one. */
function placeFor(found: Cluster, cluster: Cluster, { domains = [] }: Former): Place {
  const { controllerUrl } = domains.includes(found.domain) ? found : cluster;
  return { controllerUrl, ca: cluster.ca };
}

/** What others wrote about the cluster is kept, and https:// is never given up for http://. */
function renewed(found: Cluster, cluster: Cluster): Cluster {
  const isWorse = isSecure(found) && !isSecure(cluster);
  const way = isWorse ? { controllerUrl: found.controllerUrl, ca: found.ca } : {};
  return { ...found, ...cluster, ...way };
}

function isSecure({ controllerUrl }: Pick<Cluster, 'controllerUrl'>): boolean {
  return controllerUrl.startsWith('https:');
}

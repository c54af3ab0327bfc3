/** What apps are called in discovery and which services they link: by their releases that are live or being deployed. */
import { resourceKey } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { Resource, ResourceType } from '@flynn/resource/type';
import { servicesOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import type { Process } from '../processes/process.ts';
import { appType, deploymentType, releaseType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';

/** A transaction holds a hundred operations on any store. */
const readsAtOnce = 100;

/** Of a release. */
export type Said = Readonly<{ names: ReadonlySet<string>; links: ReadonlySet<string> }>;
export type Announcer = Readonly<{ app: AppResource; said: readonly Said[] }>;

type Processes = Readonly<Record<string, Pick<Process, 'ports'>>>;

/** Those it says and, of a web type that says none, the one that goes by the app's name. Roles among them. */
export function namesIn(appName: string, processes: Processes): string[] {
  return Object.entries(processes).flatMap(([type, process]) => servicesOf(appName, type, process));
}

/** Of all its types, and of the release itself. */
export function linksIn({ processes, links = [] }: Pick<ReleaseResource['spec'], 'processes' | 'links'>): string[] {
  return [...Object.values(processes).flatMap((process) => process.links), ...links];
}

/** A release never changes: it is read once, and known for as long as it is one of these. */
export class Announced {
  readonly #deps: Pick<Deps, 'resources' | 'store' | 'log'>;
  #known: ReadonlyMap<string, Said> = new Map();

  constructor(deps: Pick<Deps, 'resources' | 'store' | 'log'>) {
    this.#deps = deps;
  }

  /** As fresh as the store. All apps, those without a release too. */
  async all(signal: AbortSignal): Promise<Announcer[]> {
    const apps = await this.#deps.resources.list(appType, { signal });
    const deploymentIds = apps.flatMap(({ status }) => status.deploymentId ?? []);
    const underWay = await this.#read(deploymentType, deploymentIds, signal);
    const next = new Map(underWay.map(({ id, spec }) => [id, spec.newReleaseId]));
    const idsOf = ({ status }: AppResource): string[] =>
      [status.releaseId, next.get(status.deploymentId ?? '')].filter((id) => id !== undefined);
    const known = await this.#said(apps, [...new Set(apps.flatMap(idsOf))], signal);
    return apps.map((app) => ({ app, said: idsOf(app).flatMap((id) => known.get(id) ?? []) }));
  }

  async #said(
    apps: readonly AppResource[],
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Said>> {
    const nameOf = new Map(apps.map(({ id, spec }) => [id, spec.name]));
    const before = this.#known;
    const unread = ids.filter((id) => !before.has(id));
    const read = (await this.#read(releaseType, unread, signal)).map(({ id, spec }): [string, Said] => {
      const names = new Set(namesIn(nameOf.get(spec.appId) ?? '', spec.processes));
      return [id, { names, links: new Set(linksIn(spec)) }];
    });
    const kept = ids.flatMap((id): [string, Said][] => {
      const said = before.get(id);
      return said === undefined ? [] : [[id, said]];
    });
    this.#known = new Map([...kept, ...read]);
    return this.#known;
  }

  /** What was deleted in between, or cannot be read, is left out. */
  async #read<Spec, Status, SpecInput>(
    type: ResourceType<string, Spec, Status, SpecInput>,
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<Resource<Spec, Status>[]> {
    const { store, log } = this.#deps;
    const found: Resource<Spec, Status>[] = [];
    for (let at = 0; at < ids.length; at += readsAtOnce) {
      const then = ids.slice(at, at + readsAtOnce).map((id) => ({ get: resourceKey(type.name, id) }));
      const { reads } = await store.transact({ then }, { signal });
      for (const [entry] of reads) {
        if (entry === undefined) continue;
        try {
          found.push(decodeResource(type, entry));
        } catch (error) {
          log.error({ err: error, entry: entry.key }, 'a resource could not be read and is left out');
        }
      }
    }
    return found;
  }
}

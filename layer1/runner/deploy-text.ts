/** What a pusher reads of a deployment. */
import type { Deployment } from '@flynn/controller/model';
import type { RouteView } from '@flynn/controller/routes/api';
import { exitCodeText } from '@flynn/kit/exit-codes';
import { httpUrlOf } from '@flynn/controller/routes/url';

/** A line for each process type whose state changed since the last look, and is of interest. */
export function progressLines(before: Deployment['progress'], { progress }: Pick<Deployment, 'progress'>): string[] {
  return Object.entries(progress).flatMap(([type, { wanted, up, old }]) => {
    const last = before[type];
    if (wanted === 0 || (last === undefined ? up === 0 && old === 0 : last.up === up && last.wanted === wanted))
      return [];
    return [`       ${type} ${up}/${wanted} up`];
  });
}

/** Types that came with this release and start nothing by themselves: people may wait for them. `before`: those of the old one. */
export function idleLines(
  { progress }: Pick<Deployment, 'progress'>,
  types: readonly string[],
  before: readonly string[],
): string[] {
  const idle = types.filter((type) => !before.includes(type) && progress[type]?.wanted === 0);
  if (idle.length === 0) return [];
  const command = `flynn scale ${idle.map((type) => `${type}=1`).join(' ')}`;
  return [`       No jobs yet of ${idle.join(', ')}. To start one of each: ${command}`];
}

const hints: ReadonlyMap<number, readonly string[]> = new Map([
  [
    126,
    ['       A command is there and may not be executed: "git update-index --chmod=+x FILE", or name its interpreter'],
  ],
  [127, ["       A command was not found: is it among the app's dependencies, not only those of development?"]],
]);

/** The last lines of the job whose end failed a deployment, and how it ended. */
export function failedJobLines({ failedJob }: Pick<Deployment, 'failedJob'>): string[] {
  if (failedJob === undefined) return [];
  const { id, type, exitCode, lines } = failedJob;
  const end = `       ${type} (${id}) ${exitCode === undefined ? 'failed' : `ended with ${exitCodeText(exitCode)}`}`;
  const hint = hints.get(exitCode ?? 0) ?? [];
  if (lines.length === 0) return [`       ${type} said nothing before it ended`, end, ...hint];
  return [`       the last lines of ${type}:`, ...lines.map((line) => `       ${line}`.trimEnd()), end, ...hint];
}

/** What runs of the app now that a deployment failed. */
export function remainsLine({ oldReleaseId }: Pick<Deployment, 'oldReleaseId'>): string {
  return oldReleaseId === undefined
    ? '       Nothing of the app runs: put it right and push again'
    : '       The release before it keeps running';
}

/** A deployment that waits for people, and what they can do. */
export function waitingLines({ state, rollout }: Pick<Deployment, 'state' | 'rollout'>): string[] {
  const promotionMs = rollout?.autoPromoteMs;
  const promotion =
    promotionMs === undefined ? [] : [`       The rest follows once they were healthy for ${promotionMs / 1_000} s`];
  return state === 'canary'
    ? [
        '=====> The canaries are up beside the old release',
        ...promotion,
        '       flynn deployment promote   flynn deployment abort',
      ]
    : ['=====> The deployment is paused', '       flynn deployment resume   flynn deployment abort'];
}

/** Why nothing else is deployed meanwhile: only people can end it. */
export function othersWait({ state }: Pick<Deployment, 'state'>): string {
  return state === 'canary'
    ? 'the deployment before waits for its canaries to be judged: "flynn deployment promote" or "abort", then push again'
    : 'the deployment before is paused: "flynn deployment resume" or "abort", then push again';
}

/** Where the app answers now. */
export function routeLines(routes: readonly RouteView[], cluster: { domain: string; httpPort: number }): string[] {
  return routes.flatMap((route) => {
    if (route.type === 'tcp') return route.port === undefined ? [] : [`=====> tcp://${cluster.domain}:${route.port}`];
    if (route.domain === undefined) return [];
    return [`=====> ${httpUrlOf(route, cluster)}`];
  });
}

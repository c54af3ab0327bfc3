/** How the apps of a backup get on once they were started, and what those say that do not. */
import { apps, formations, jobs } from '@flynn/controller/api';
import { platform } from '@flynn/controller/platform/api';
import type { App, Job } from '@flynn/controller/model';
import { logRecords } from '@flynn/cli/logs/stream';
import { type Clock, systemClock } from '@flynn/kit/clock';
import { hasCode, ifFound, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry, withDeadline } from '@flynn/kit/retry';
import type { Report } from '../steps/timed.ts';

type Client = Pick<HttpClient, 'call' | 'stream'>;

/** `types`: `web 1/2`, healthy of wanted, of those that lack some. */
export type Unwell = Readonly<{ app: string; types: readonly string[]; why: string; lines: readonly string[] }>;

const deadlineMs = 15 * 60_000;
/** Nothing became healthy for so long: what is left does not by itself. */
const quietMs = 3 * 60_000;
const againMs = 2_000;
const reachMs = 120_000;
const lastLines = 10;
const linesMs = 10_000;

type Seen = { app: App; healthy: number; lacking: Lacking[] };
type Lacking = { type: string; wanted: number; healthy: number };

/** Until all are healthy, nothing gets on any more, or a quarter of an hour is over. Those that are not, by name. */
export async function untilHealthy(
  client: Client,
  { report, signal, clock = systemClock }: { report: Report; signal: AbortSignal; clock?: Clock },
): Promise<{ count: number; unwell: Unwell[] }> {
  const beganMs = clock.now();
  let changedMs = beganMs;
  let before = '';
  for (;;) {
    // The controller may be in another instance's hands for a moment.
    const what = 'asking the controller for the apps';
    const seen = await retry((limited) => look(client, limited), { what, signal, deadlineMs: reachMs });
    const unwell = seen.filter(({ lacking }) => lacking.length > 0);
    const told = seen.map(({ healthy }) => healthy).join();
    if (told !== before) changedMs = clock.now();
    before = told;
    report(
      `${seen.length - unwell.length} of ${seen.length} healthy${unwell.length === 0 ? '' : `; ${namesOf(unwell)}`}`,
    );
    if (unwell.length === 0) return { count: seen.length, unwell: [] };
    if (clock.now() - changedMs >= quietMs || clock.now() - beganMs >= deadlineMs) {
      const found = await Promise.all(unwell.map((one) => ifFound(diagnose(client, one, signal))));
      return { count: seen.length, unwell: found.filter((one) => one !== undefined) };
    }
    await clock.sleep(againMs, { signal });
  }
}

async function look(client: Client, signal: AbortSignal): Promise<Seen[]> {
  const found: Seen[] = [];
  for (const app of await client.call(apps.list, {}, { signal })) {
    if (app.isSystem || app.releaseId === undefined) continue;
    // Somebody may delete it meanwhile.
    const one = await ifFound(lookAt(client, app, app.releaseId, signal));
    if (one !== undefined) found.push(one);
  }
  return found;
}

async function lookAt(client: Client, app: App, releaseId: string, signal: AbortSignal): Promise<Seen> {
  const formation = await client.call(formations.get, { params: { app: app.id, release: releaseId } }, { signal });
  const all = await client.call(jobs.list, { params: { app: app.id }, query: {} }, { signal });
  const own = all.filter((job) => job.releaseId === releaseId);
  // A datastore serves with one member: its copies take as long as they take, or wait for hosts that are not there yet.
  const most = app.datastore === undefined ? Infinity : 1;
  const counts = Object.entries(formation.processes).map(([type, asked]) => {
    const wanted = Math.min(asked, most);
    const healthy = own.filter((job) => job.type === type && job.state === 'running').length;
    return { type, wanted, healthy: Math.min(wanted, healthy) };
  });
  return {
    app,
    healthy: counts.reduce((sum, { healthy }) => sum + healthy, 0),
    lacking: counts.filter(({ wanted, healthy }) => healthy < wanted),
  };
}

async function diagnose(client: Client, { app, lacking }: Seen, signal: AbortSignal): Promise<Unwell> {
  const query = { all: true };
  const all = await client.call(jobs.list, { params: { app: app.id }, query }, { signal });
  const ill = all
    .filter(({ type, state }) => state !== 'running' && lacking.some((one) => one.type === type))
    .toSorted((one, other) => (one.createdAt < other.createdAt ? 1 : -1));
  const told = ill.find(({ error, exitCode }) => error !== undefined || exitCode !== undefined) ?? ill[0];
  return { app: app.name, types: typesOf(lacking), why: whyOf(told), lines: await linesOf(client, app, signal) };
}

function typesOf(lacking: readonly Lacking[]): string[] {
  return lacking.map(({ type, healthy, wanted }) => `${type} ${healthy}/${wanted}`);
}

function whyOf(job: Job | undefined): string {
  if (job === undefined) return 'no job of it is there';
  const { state, error, exitCode, hostId } = job;
  if (error !== undefined) return `${state}: ${error}`;
  if (exitCode !== undefined) return `${state}, exit code ${exitCode}`;
  return hostId === undefined ? `${state}, without a place: flynn eval list --state blocked says why` : state;
}

/** That there are none, or nobody to ask, is no reason to say less of the rest. */
async function linesOf(client: Client, { id, releaseId }: App, signal: AbortSignal): Promise<string[]> {
  const limited = withDeadline(linesMs, signal);
  const lines: string[] = [];
  try {
    const open = (query: object) => client.stream(platform.log, { params: { app: id }, query }, { signal: limited });
    const query = { lines: lastLines, ...(releaseId === undefined ? {} : { releaseId }) };
    for await (const { line } of logRecords(open, query, {
      signal: limited,
      onLost: () => undefined,
      onGap: () => undefined,
      onUnreadable: () => undefined,
    })) {
      lines.push(line.message);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!hasCode(error, 'not_found')) lines.push(`(its log cannot be read: ${messageOf(error)})`);
  }
  return lines;
}

function namesOf(unwell: readonly Seen[]): string {
  const names = unwell.map(({ app, lacking }) => `${app.name} (${typesOf(lacking).join(', ')})`);
  return names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ');
}

/** What there is to see to, for people; nothing when all is well. */
export function unwellText(unwell: readonly Unwell[]): string {
  if (unwell.length === 0) return '';
  const each = unwell.map(({ app, types, why, lines }) => {
    const said = lines.length === 0 ? '' : `\n    its last lines:\n${lines.map((line) => `    ${line}`).join('\n')}`;
    return `  ✗ ${app}: ${types.join(', ')} (${why})${said}\n    more: flynn -a ${app} ps, flynn -a ${app} log\n`;
  });
  return `\nNot healthy ${unwell.length === 1 ? 'is' : 'are'}, with all else of the backup restored:\n\n${each.join('')}`;
}

/** `flynn status` and `flynn doctor`: how the platform is, and what to do about it. Exit codes: 0 well, 1 see to it, 2 broken. */
import { health } from '@flynn/controller/health/api';
import type { ClusterHealth, Component, HealthEvent } from '@flynn/controller/health/api';
import { type FlynnError, asFlynnError, hasCode } from '@flynn/kit/errors';
import { parseWhole, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { explain } from '../explanation.ts';
import { formatAge, formatTable, paint } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const exitCodes = { ok: 0, warning: 1, critical: 2 } as const;
const outputs = ['table', 'json'] as const;
const statusPatienceMs = 900;
const doctorPatienceMs = 5_000;
/** For the way there, and for a machine that is busy. */
const graceMs = 5_000;
const dayMs = 86_400_000;
/** Of the latest events; `flynn events` has more. */
const maxEvents = 5;

type Options = { output?: string; patience?: string };

const optionTable = {
  output: ['-o, --output <format>', outputs.join(' or ')],
  patience: ['--patience <seconds>', 'how long to wait for what does not answer'],
} as const;

export function addStatusCommands(parent: Parent): void {
  addCommand<Options>(parent, {
    name: 'status',
    summary: 'every part of the platform, every host, what is wrong; exit code 0: well, 1: see to it, 2: broken',
    options: optionTable,
    examples: ['flynn status', 'flynn status -o json | jq .findings'],
    run: (context, options) => tell(context, options, statusPatienceMs, statusText),
  });
  addCommand<Options>(parent, {
    name: 'doctor',
    summary: 'what is wrong: since when, why it matters, what to do; exit codes as of status',
    options: optionTable,
    run: (context, options) => tell(context, options, doctorPatienceMs, doctorText),
  });
}

async function tell(
  context: Context,
  { output, patience }: Options,
  usualMs: number,
  text: (context: Context, seen: ClusterHealth) => string,
): Promise<number> {
  const isJson = isJsonWanted(context, output);
  const patienceMs =
    patience === undefined ? usualMs : 1_000 * parseWhole(patience, { what: 'a number of seconds', min: 1, max: 20 });
  let seen: ClusterHealth;
  try {
    const client = await context.client();
    seen = await context.progress('looking', () =>
      client.call(health.get, { query: { patienceMs } }, { timeoutMs: patienceMs + graceMs }),
    );
  } catch (error) {
    if (hasCode(error, 'cancelled')) throw error;
    return tellUnread(context, isJson, await context.explained(error));
  }
  context.print(isJson ? JSON.stringify(seen, undefined, 2) : text(context, seen));
  return exitCodes[seen.health];
}

const elsewhere = 'on one of its hosts, as root: flynn-host status, flynn-host doctor';

/** How it is could not be read, which is never "it works". */
function tellUnread(context: Context, isJson: boolean, error: unknown): number {
  const { message, remedy } = unreadOf(asFlynnError(error));
  if (isJson) context.print(JSON.stringify({ health: 'critical', error: message, remedy }, undefined, 2));
  else context.print(`✗ controller: ${message}\n    ${remedy}\n`);
  return exitCodes.critical;
}

/** Whoever is not known, or does not trust what answers, can mend that here; else what is left to ask is Layer 0. */
function unreadOf(error: FlynnError): { message: string; remedy: string } {
  const [message = '', ...rest] = error.code === 'unauthenticated' ? explain(error).split('\n') : [error.message];
  if (rest.length > 0) return { message, remedy: rest.map((line) => line.trim()).join('\n    ') };
  const isAway = hasCode(error, 'unavailable', 'timeout');
  const what = isAway ? 'it, the router in front of it, or the way there is down' : 'how the cluster is was not told';
  return { message, remedy: `${what}: ${elsewhere}` };
}

function isJsonWanted(context: Context, output: string | undefined): boolean {
  const wanted = output ?? (context.options.json ? 'json' : 'table');
  if (outputs.every((one) => one !== wanted)) {
    throw usageError(`there is no output "${wanted}": choose from ${outputs.join(', ')}`);
  }
  return wanted === 'json';
}

function statusText(context: Context, seen: ClusterHealth): string {
  const { components, hosts, etcd, findings, unknown } = seen;
  const leader = etcd.find(({ isLeader }) => isLeader)?.hostId;
  const parts = [
    formatTable(
      ['COMPONENT', 'HEALTHY', 'VERSION', 'HOSTS'],
      components.map((one) => [
        one.name,
        `${one.healthy}/${one.wanted}`,
        one.versions.join(','),
        hostsText(one, one.name === 'etcd' ? leader : undefined),
      ]),
    ),
    formatTable(
      ['HOST', 'STATE', 'JOBS', 'DISK', 'MEMORY', 'CLOCK', 'UP'],
      hosts.map(({ id, state, jobs, agent, clockOffsetMs, startedAt }) => [
        id,
        state,
        jobs === undefined ? undefined : String(jobs),
        percentText(agent?.diskUsedPercent),
        percentText(agent?.memoryUsedPercent),
        clockOffsetMs === undefined
          ? undefined
          : `${clockOffsetMs < 0 ? '' : '+'}${(clockOffsetMs / 1_000).toFixed(1)}s`,
        startedAt === undefined ? undefined : formatAge(new Date(startedAt).toISOString(), Date.now()),
      ]),
    ),
    verdictText(context, seen),
  ];
  const brief = findings.map(
    ({ severity, subject, what, remedy }) => `${markOf(context, severity)} ${subject}: ${what}\n    ${remedy}\n`,
  );
  const wrong = brief.length + unknown.length === 0 ? [] : [brief.join('') + unknownText(seen)];
  return [...parts, ...wrong, ...eventsText(seen.events, Date.parse(seen.checkedAt))].join('\n');
}

/** What happened within a day, as far as it is not told above. */
function eventsText(events: readonly HealthEvent[], nowMs: number): string[] {
  const recent = events.filter(({ at }) => nowMs - Date.parse(at) < dayMs).slice(0, maxEvents);
  if (recent.length === 0) return [];
  const rows = recent.map(({ at, what, subject, text }) => [formatAge(at, nowMs), what, `${subject}: ${text}`]);
  return [formatTable(['AGE', 'LATELY', ''], rows)];
}

function doctorText(context: Context, seen: ClusterHealth): string {
  const { findings, unknown } = seen;
  const now = Date.now();
  const told = findings.map(({ severity, subject, what, since, why, remedy }) => {
    const age = since === undefined ? '' : `  since  ${since} (${formatAge(since, now)})\n`;
    return `${markOf(context, severity)} ${subject}: ${what}\n${age}  why    ${why}\n  do     ${remedy}\n`;
  });
  const rest = unknown.length === 0 ? [] : [unknownText(seen)];
  return [...told, ...rest, verdictText(context, seen)].join('\n');
}

function verdictText(context: Context, { health: state, findings, hosts, cluster }: ClusterHealth): string {
  const where = `${cluster}, ${hosts.length} host${hosts.length === 1 ? '' : 's'}`;
  if (state === 'ok') return `${paint(context.io.stdout, 'green', 'all is well')}: ${where}\n`;
  const grave = findings.filter(({ severity }) => severity === 'critical').length;
  const what = state === 'critical' ? `${grave} critical of ${findings.length} findings` : 'it works, see to it';
  return `${paint(context.io.stdout, 'red', state)}: ${where}: ${what}; "flynn doctor" tells more\n`;
}

function unknownText({ unknown }: ClusterHealth): string {
  return unknown.map(({ subject, check, why }) => `? ${subject}: could not look at its ${check}: ${why}\n`).join('');
}

/** `h1,h2(2),h3(0/1)`: instances where they are not one healthy one; `*` leads. */
function hostsText({ hosts }: Component, leader: string | undefined): string {
  return hosts
    .map(({ host, instances, healthy }) => {
      const count = healthy === instances ? (instances === 1 ? '' : `(${instances})`) : `(${healthy}/${instances})`;
      return `${host}${count}${host === leader ? '*' : ''}`;
    })
    .join(',');
}

function percentText(percent: number | undefined): string | undefined {
  return percent === undefined ? undefined : `${Math.round(percent)}%`;
}

function markOf(context: Context, severity: 'warning' | 'critical'): string {
  return severity === 'critical' ? paint(context.io.stdout, 'red', '✗') : '!';
}

/** An examination as people read it. */
import { formatAge, formatBytes, formatTable } from '../cli/format.ts';
import type { ClusterExamination, ExaminedHost, ExaminedMember } from './api.ts';
import type { Finding, Unknown, Verdict } from './finding.ts';

export function hostsText(hosts: readonly ExaminedHost[], nowMs: number): string {
  return formatTable([
    ['HOST', 'STATE', 'AGENT', 'ENGINE', 'SCHEDULER', 'JOBS', 'DISK', 'MEMORY', 'CLOCK', 'UP'],
    ...hosts.map(({ id, state, agent, jobs, clockOffsetMs, startedAt }) => [
      id,
      state,
      agent?.version,
      agent === undefined ? undefined : engineText(agent.engine),
      agent?.scheduler,
      jobs === undefined ? undefined : String(jobs),
      percentText(agent?.diskUsedPercent),
      percentText(agent?.memoryUsedPercent),
      clockOffsetMs === undefined
        ? undefined
        : `${clockOffsetMs >= 0 ? '+' : ''}${(clockOffsetMs / 1_000).toFixed(1)}s`,
      formatAge(startedAt, nowMs),
    ]),
  ]);
}

export function membersText(members: readonly ExaminedMember[]): string {
  return formatTable([
    ['ETCD', 'STATE', 'VERSION', 'DATABASE', 'IN-USE'],
    ...members.map(({ hostId, endpoint, isHealthy, isLeader, version, sizeBytes, usedBytes }) => [
      hostId ?? endpoint,
      isHealthy ? (isLeader ? 'leader' : 'follower') : version === undefined ? 'away' : 'no-leader',
      version,
      formatBytes(sizeBytes),
      formatBytes(usedBytes),
    ]),
  ]);
}

/** A line each: what is wrong, and what to do. */
export function briefText({ findings, unknown }: Verdict): string {
  const lines = findings.map(
    ({ severity, subject, what, remedy }) => `${mark(severity)} ${subject}: ${what}\n    ${remedy}\n`,
  );
  return [...lines, ...unknown.map(unknownText)].join('');
}

/** All there is to say of each. */
export function findingsText({ findings, unknown }: Verdict, nowMs: number): string {
  const parts = findings.map(({ severity, subject, what, since, why, remedy }) => {
    const age = since === undefined ? '' : `  since  ${since} (${formatAge(Date.parse(since), nowMs)})\n`;
    return `${mark(severity)} ${subject}: ${what}\n${age}  why    ${why}\n  do     ${remedy}\n`;
  });
  return [...parts, ...unknown.map(unknownText)].join('\n');
}

export function clusterText(examination: ClusterExamination, nowMs: number): string {
  const { hosts, etcd, keeper } = examination;
  const kept =
    keeper === undefined ? '' : `The platform is kept by ${keeper}: updates, keys and the domain are changed there.\n`;
  const parts = [`${hostsText(hosts, nowMs)}${kept}`, membersText(etcd), briefText(examination)];
  return parts.filter((one) => one !== '').join('\n');
}

function mark(severity: Finding['severity']): string {
  return severity === 'critical' ? '✗' : '!';
}

function unknownText({ check, subject, why }: Unknown): string {
  return `? ${subject}: could not look at its ${check}: ${why}\n`;
}

function engineText({ isConnected, isHung, version }: NonNullable<ExaminedHost['agent']>['engine']): string {
  if (!isConnected) return 'away';
  return isHung === true ? 'hangs' : version;
}

function percentText(percent: number | undefined): string | undefined {
  return percent === undefined ? undefined : `${Math.round(percent)}%`;
}

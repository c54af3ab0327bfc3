/** The systemd unit that keeps a host agent running: its text, and how it gets into systemd and out again. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { isSystemdRunning } from '../machine/engine.ts';
import { runProgram, tryProgram } from '../machine/program.ts';
import type { Cluster } from '../settings.ts';
import { hasCluster } from '../state.ts';

type Named = Pick<Cluster, 'name'>;

/** Of systemd itself, beside what it waits for. */
const systemctlMs = 30_000;
export const unitsFolder = '/etc/systemd/system';

export function unitOf(cluster: Named): string {
  return `flynn-host-${cluster.name}`;
}

export const unitFile = (cluster: Named): string => join(unitsFolder, `${unitOf(cluster)}.service`);

const environmentLine = (stateDir: string): string => `EnvironmentFile=${join(stateDir, 'agent.env')}`;

/** Nothing where there is none. */
export function unitTextOf(cluster: Named): Promise<string | undefined> {
  return readTextFile(unitFile(cluster));
}

export type UnitPlaces = Readonly<{
  stateDir: string;
  node: string;
  /** What node runs. */
  program: string;
}>;

/** Paths have to be such as systemd takes for one word that means itself: `plainFolder` in settings.ts and `install` see to it. */
export function unitText(cluster: Named, { stateDir, node, program }: UnitPlaces): string {
  return `[Unit]
Description=Flynn host agent (${cluster.name})
# At a shutdown in the other order: the agent ends before the containers do, and the network last.
After=network-online.target docker.service
Wants=network-online.target docker.service
RequiresMountsFor=${stateDir} ${node}
# However often it ended: what it lacks may come back after hours.
StartLimitIntervalSec=0

[Service]
# What cannot be started at all is known at once.
Type=exec
${environmentLine(stateDir)}
WorkingDirectory=/
# The agent makes little garbage: a small nursery saves 16 MB on every host.
ExecStartPre=-/bin/sh ${join(stateDir, 'agent', 'choose-version')} ${stateDir}
ExecStart=${node} --max-semi-space-size=2 --v8-pool-size=1 ${program}
Restart=always
RestartSec=1
# Jobs outlive their agent; so do the watchdog of those of which there may be only one, and an update that replaces it.
KillMode=process
# A restart is no end: the agent has what others know of its host hold until it is back.
RestartKillSignal=SIGUSR2
# The agent takes 25 s at most.
TimeoutStopSec=40
LimitNOFILE=65536
OOMScoreAdjust=-500
# A program it ran that was killed for its memory is no reason to end the agent.
OOMPolicy=continue
SyslogIdentifier=flynn-host

[Install]
WantedBy=multi-user.target
`;
}

export async function isUnitActive(cluster: Named): Promise<boolean> {
  return (await tryProgram('systemctl', ['is-active', '--quiet', unitOf(cluster)], { timeoutMs: 20_000 })).code === 0;
}

/**
 * From now on, and after each boot. One that runs is stopped first, for up to `stopMs`. `conflict` where it is that of another
 * cluster: its agent would be ended, and what it runs left to this one.
 */
export async function startUnit(
  cluster: Named,
  text: string,
  { stateDir, stopMs }: { stateDir: string; stopMs: number },
): Promise<void> {
  const other = otherStateDir((await unitTextOf(cluster)) ?? '', stateDir);
  if (other !== undefined && hasCluster(other)) {
    throw new FlynnError(
      'conflict',
      `the unit ${unitOf(cluster)} is that of the cluster in ${other}, and stays: name that folder (FLYNN_STATE_DIR=${other}), or give this one another name (FLYNN_CLUSTER)`,
    );
  }
  await writeFileAtomic(unitFile(cluster), text, { mode: 0o644 });
  await runProgram('systemctl', ['daemon-reload'], { timeoutMs: systemctlMs });
  await runProgram('systemctl', ['enable', '--quiet', unitOf(cluster)], { timeoutMs: systemctlMs });
  await runProgram('systemctl', ['restart', unitOf(cluster)], { timeoutMs: stopMs + 20_000 });
}

/**
 * Whether the text is that of the agent with this state directory, by whatever way it is named: a test host may have a cluster of
 * the same name.
 */
export function isUnitOf(text: string, stateDir: string): boolean {
  const named = stateDirIn(text);
  return named !== undefined && placeOf(named) === placeOf(stateDir);
}

/** Whether there is one that is this state directory's. */
export function hasUnit(cluster: Named, stateDir: string): boolean {
  const file = unitFile(cluster);
  return existsSync(file) && isUnitOf(readFileSync(file, 'utf8'), stateDir);
}

/** The state directory of the unit's agent where that is another than this one. */
export function otherStateDir(text: string, stateDir: string): string | undefined {
  return isUnitOf(text, stateDir) ? undefined : stateDirIn(text);
}

/** Where the agent of that unit has its state. */
export function stateDirIn(text: string): string | undefined {
  return /^EnvironmentFile=(.+)\/agent\.env$/m.exec(text)?.[1];
}

/** Without links; as it is named where it is not there, or is not this user's to look at. */
function placeOf(folder: string): string {
  try {
    return realpathSync(folder);
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ENOTDIR', 'EACCES')) return folder;
    throw error;
  }
}

/**
 * What people set beside the unit (`systemctl edit`), which is there for it alone. Whether there was any. Of a unit that is there
 * it stays: that is another's, or was not removed.
 */
export async function removeDropIns(cluster: Named): Promise<boolean> {
  const beside = `${unitFile(cluster)}.d`;
  if (!existsSync(beside) || existsSync(unitFile(cluster))) return false;
  await rm(beside, { recursive: true });
  if (isSystemdRunning()) await runProgram('systemctl', ['daemon-reload'], { timeoutMs: systemctlMs });
  return true;
}

/** Whether there was one that is this state directory's. */
export async function removeUnit(cluster: Named, stateDir: string, stopMs: number): Promise<boolean> {
  if (!hasUnit(cluster, stateDir)) return false;
  const unit = unitOf(cluster);
  await runProgram('systemctl', ['disable', '--now', '--quiet', unit], { timeoutMs: stopMs + 20_000 });
  await rm(unitFile(cluster));
  await runProgram('systemctl', ['daemon-reload'], { timeoutMs: systemctlMs });
  // One that failed is listed as long as nobody says otherwise; where it did not there is nothing to reset.
  await tryProgram('systemctl', ['reset-failed', '--quiet', unit], { timeoutMs: systemctlMs });
  return true;
}

export async function unitJournal(cluster: Named, lines: number): Promise<string> {
  const args = ['-u', unitOf(cluster), '-n', String(lines), '-o', 'cat'];
  return (await tryProgram('journalctl', args, { timeoutMs: 10_000 })).stdout;
}

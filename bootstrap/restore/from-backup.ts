/** `up --from-backup FILE`: what a backup says of the cluster that is to be made, and how far it is. */
import { createReadStream } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { styleText } from 'node:util';
import { checkPassphrase, decrypted } from '@flynn/controller/backup/encryption';
import { type Inspection, inspectArchive } from '@flynn/controller/backup/inspection';
import type { PlatformPart } from '@flynn/controller/backup/manifest';
import type { RestoreSource } from '@flynn/controller/backup/restore';
import type { EncryptionWord } from '@flynn/host-agent/network/encryption';
import { wireguardRemedy } from '@flynn/host-agent/network/wireguard';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';
import { addLine, pinLine } from '../cli/add-line.ts';
import { formerDomainsIn } from '../domain/domain.ts';
import { type SystemApp, gitReceiverApp } from '../platform/manifest.ts';
import { commands } from '../origin.ts';
import { givenBy, nextEnv, nextProcesses } from '../platform/part.ts';
import { type Cluster, type Options } from '../settings.ts';
import { httpsPortOf } from '../domain/urls.ts';
import { adoptHostKey } from '../state.ts';
import { type Place, metLimits } from './unmet-limits.ts';

export type Backup = Readonly<{ file: string; inspection: Inspection; source: RestoreSource }>;

/** On this machine's disk, from before anything is made until all of it is there. */
const stateSchema = z.object({ file: z.string(), digest: z.string(), isComplete: z.boolean() });
type RestoreFile = Readonly<z.output<typeof stateSchema>>;

const stateFile = (stateDir: string): string => join(stateDir, 'restore.json');

/** Reads all of it: one that is damaged, cut, or of a later flynn is `invalid` before anything is touched. */
export async function openBackup(
  path: string,
  { env, passphraseFile }: { env: Record<string, string | undefined>; passphraseFile?: string | undefined },
): Promise<Backup> {
  // npm runs scripts in the repository; the path was meant from where it was typed.
  const from = env['INIT_CWD'] ?? '.';
  const file = resolve(from, path);
  const given =
    passphraseFile === undefined
      ? env['FLYNN_BACKUP_PASSPHRASE']
      : await readFile(resolve(from, passphraseFile), 'utf8');
  const passphrase = given === undefined ? undefined : checkPassphrase(given);
  const open = () => decrypted(createReadStream(file, { highWaterMark: 256 * 1024 }), passphrase);
  try {
    const inspection = await inspectArchive(open());
    return { file, inspection, source: { open, digest: inspection.digest } };
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'EACCES', 'EISDIR')) {
      throw new FlynnError('not_found', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
    }
    if (!(error instanceof FlynnError)) throw error;
    throw new FlynnError(error.code, `${file} cannot be restored: ${error.message}`, { cause: error });
  }
}

/**
 * `conflict` where there is a cluster that this backup is not being restored onto, and for a plain `up` (or a joining) in the
 * middle of a restore, from the moment it was begun.
 */
export async function checkRestore(
  stateDir: string,
  stored: Cluster | undefined,
  backup: Backup | undefined,
): Promise<void> {
  const begun = await readJsonFile(stateFile(stateDir), stateSchema);
  if (backup === undefined) {
    if (begun === undefined || begun.isComplete) return;
    // Also where nothing of the cluster is there yet: an empty one would be made, onto which nothing is restored.
    throw new FlynnError(
      'conflict',
      `the restore of ${begun.file} is not through: go on with it by ${commands.restore} ${begun.file}, or take away what there is of it with ${commands.down}`,
    );
  }
  if (stored === undefined) return;
  if (begun?.digest === backup.source.digest) return;
  throw new FlynnError(
    'conflict',
    `this machine is a host of the cluster ${stored.name} already, and a backup is restored onto a new one: take it away first with ${commands.down}, or restore on another machine`,
  );
}

export async function writeRestore(
  stateDir: string,
  backup: Backup,
  { isComplete }: { isComplete: boolean },
): Promise<void> {
  const state: RestoreFile = { file: backup.file, digest: backup.source.digest, isComplete };
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  await writeFileAtomic(stateFile(stateDir), `${JSON.stringify(state)}\n`, { mode: 0o600 });
}

/**
 * The options as if the backed-up cluster's had been given, where none were. `conflict` for another domain: people's
 * routes are of theirs. Of what was begun already (`stored`) its own count: who goes on may not say again what differs.
 */
export function withBackup(options: Options, { platform }: Inspection, stored: Cluster | undefined): Options {
  if (stored !== undefined) return options;
  if (options.FLYNN_DOMAIN !== undefined && options.FLYNN_DOMAIN !== platform.domain) {
    throw new FlynnError(
      'conflict',
      `FLYNN_DOMAIN is ${options.FLYNN_DOMAIN}, but the routes in the backup are of ${platform.domain}: unset it`,
    );
  }
  const { httpPort } = platform;
  const hasOwnHttps = platform.httpsPort !== httpsPortOf({ httpPort });
  const ports =
    options.FLYNN_HTTP_PORT === undefined
      ? { FLYNN_HTTP_PORT: httpPort, ...(hasOwnHttps ? { FLYNN_HTTPS_PORT: platform.httpsPort } : {}) }
      : {};
  const gitPort = Number(new URL(platform.gitUrl).port || 22);
  return {
    ...options,
    FLYNN_DOMAIN: platform.domain,
    FLYNN_CLUSTER: options.FLYNN_CLUSTER ?? platform.name,
    ...ports,
    ...(options.FLYNN_HTTPS_PORT === undefined ? {} : { FLYNN_HTTPS_PORT: options.FLYNN_HTTPS_PORT }),
    FLYNN_GIT_PORT: options.FLYNN_GIT_PORT ?? gitPort,
  };
}

/**
 * The cluster with the root key people have and the identity their ssh knows; what is only between hosts and services is
 * made anew. From here on this machine remembers what it is being restored from.
 */
export async function takeKeys(stateDir: string, cluster: Cluster, backup: Backup): Promise<Cluster> {
  const isComplete = await isRestored(stateDir, backup);
  await writeRestore(stateDir, backup, { isComplete });
  // From then on its keys are its own, and may have been made anew.
  if (isComplete) return cluster;
  const sshHostKey = backup.inspection.platform.apps[gitReceiverApp]?.env['FLYNN_SSH_HOST_KEY'];
  if (sshHostKey !== undefined) await adoptHostKey(stateDir, sshHostKey);
  // Of one that was being made anew at that moment the new one: the former was to be good no longer.
  const [rootKey] = rootKeyOf(backup.inspection)?.split(',') ?? [];
  // Tokens of an earlier round were to be good no longer, either.
  const [round] = controllerEnv(backup.inspection)['FLYNN_TOKEN_ROUNDS']?.split(',') ?? [];
  const tokens = round === undefined ? {} : { tokens: { round: Number(round) } };
  const domains = formerDomainsIn(controllerEnv(backup.inspection));
  const { isRootKeyUntold: _known, ...made } = cluster;
  // As in the backup: if it is not there, it had been deleted.
  return { ...made, controllerKey: rootKey ?? cluster.controllerKey, ...tokens, ...domains, sample: 'live' };
}

/** As its controller was told it: two with a comma between while it was made anew. */
function rootKeyOf(inspection: Inspection): string | undefined {
  return controllerEnv(inspection)['FLYNN_CONTROLLER_KEY'];
}

function controllerEnv({ platform }: Inspection): Readonly<Record<string, string>> {
  return platform.apps['controller']?.env ?? {};
}

/** Whether all of it is there: what was changed since is its people's. */
export async function isRestored(stateDir: string, { source }: Backup): Promise<boolean> {
  const begun = await readJsonFile(stateFile(stateDir), stateSchema);
  return begun?.digest === source.digest && begun.isComplete;
}

/**
 * As they are to be in the cluster that comes back. Once all of it is there what was set since is its people's: the same command
 * done again takes nothing of that back.
 */
export async function restoredParts(
  apps: readonly SystemApp[],
  backup: Backup,
  { stateDir, places }: { stateDir: string; places: () => Promise<readonly Place[]> },
): Promise<SystemApp[]> {
  if (await isRestored(stateDir, backup)) return [...apps];
  const hosts = await places();
  return apps.map((app) => withSettings(app, backup.inspection.platform, hosts));
}

/**
 * With the variables and limits people set of it that are not the manifest's own, as far as a host meets them. Their counts come
 * once it runs: here may be less room.
 */
export function withSettings(app: SystemApp, { apps }: PlatformPart, hosts: readonly Place[]): SystemApp {
  const kept = apps[app.name];
  if (kept === undefined) return app;
  const set = { limits: metLimits(kept, hosts), given: { variables: kept.given, limits: kept.givenLimits } };
  return { ...app, env: nextEnv(app, kept), processes: nextProcesses(app, set), given: givenBy(app) };
}

export function restoredText(cluster: Cluster, { file, inspection }: Backup): string {
  const { manifest, records } = inspection;
  const command = (text: string): string => `  ${styleText('bold', text)}\n`;
  return [
    `\nThe cluster ${cluster.name} is restored as it was at ${manifest.madeAt}, from ${file}: `,
    `${records['records/app.ndjson'] ?? 0} apps with what belongs to them, the platform's among them; tokens, keys and the root key are as they were.\n`,
    ...(manifest.missing.length === 0
      ? []
      : [`${manifest.missing.length} blobs were missing when it was made: releases that need them do not start.\n`]),
    ...(rootKeyOf(inspection)?.includes(',') === true
      ? [
          'The root key was being made anew when the backup was made, and is the new one:\n\n',
          command(addLine(cluster, [])),
          '\n',
        ]
      : []),
    'Its authority is a new one. Computers elsewhere take it with the key they have:\n\n',
    command(pinLine(cluster)),
    '\nWhat was on volumes is not in a backup, but what databases of the platform’s own had is. The first push to an app sends its whole history.\n\n',
    command('flynn apps'),
    command('flynn -a APP ps'),
    '\nOther machines become hosts of it with the token that this prints:\n\n',
    command(commands.token),
  ].join('');
}

/**
 * What is so between the hosts that are to come, by the store's word. `withoutWireguard`: why this machine can have no tunnel to
 * them; alone it needs none.
 */
export function encryptionText(
  { inspection: { platform } }: Pick<Backup, 'inspection'>,
  { word, withoutWireguard }: Readonly<{ word: EncryptionWord; withoutWireguard: string | undefined }>,
): string {
  const command = (text: string): string => `  ${styleText('bold', text)}\n`;
  if (word === 'off') {
    if (platform.isEncrypted !== undefined) return '';
    return `\nThe backup is of a version that did not tell whether the cluster was encrypted between its hosts. It is in clear; to have it encrypted, once the other hosts are there:\n\n${command('flynn-host network encrypt')}`;
  }
  const lacking =
    withoutWireguard === undefined
      ? ''
      : `\n${styleText('red', '✖')} On this machine ${withoutWireguard}: other hosts do not reach its containers before that is put right.\n    → ${wireguardRemedy}\n`;
  return `\nBetween its hosts the cluster is encrypted, as it was: they let each other in at UDP 1117. To end that, once they are there:\n\n${command('flynn-host network decrypt')}${lacking}`;
}

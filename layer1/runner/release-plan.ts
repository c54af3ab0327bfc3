/** Which processes does a release of a new build have? */
import { isDeepStrictEqual } from 'node:util';
import type { Scripts } from '@flynn/controller/apps/app-json';
import { imageProcess, slugProcess, startedBySlug } from '@flynn/controller/processes/compile';
import type { BuildResult } from '@flynn/controller/model';
import { type Process, processSchema } from '@flynn/controller/processes/process';

/** The line of a Procfile that is no process but a step of each deployment. */
const releaseType = 'release';

type Named = Pick<BuildResult, 'processTypes' | 'image'>;

/** What the processes of before come from: a build's result, or people alone; undefined where nobody knows any more. */
export type Origin = Pick<BuildResult, 'processTypes' | 'image' | 'appJson'> | 'people' | undefined;

/**
 * What the build says to run, with what was set for the type before: resources, hosts, volumes, ports, links and timeouts. The
 * command and what belongs to the slug's image are new each time, since the release before may have been something else
 * than a slug. A type that is new reaches what all types reached before.
 *
 * An image says little of what is run of it: types that people added beside those of the image before stay, as does the command
 * they gave one that the image has a command of its own for.
 */
export function processesOf(
  result: Named,
  earlier: Readonly<Record<string, Process>>,
  origin?: Origin,
): Record<string, Process> {
  const links = commonLinks(Object.values(earlier));
  const isPeoples = peoplesOf(result, origin);
  const fresh = freshProcesses(result);
  const added = Object.entries(earlier).filter(
    ([type, before]) => fresh[type] === undefined && isPeoples(type, before),
  );
  const built = Object.entries(fresh).map(([type, process]): [string, Process] => {
    const before = earlier[type];
    if (before === undefined) return [type, { ...process, links }];
    const { command, entrypoint, user, workingDirectory, ...settings } = before;
    const isKept = process.command === undefined && isPeoples(type, before);
    return [
      type,
      {
        ...process,
        ...settings,
        ...(isKept ? startOf({ command, entrypoint, user, workingDirectory }) : {}),
        env: { ...withoutSlugEnv(settings.env), ...process.env },
        ports: portsOf(settings.ports, process.ports, result.image?.port !== undefined),
      },
    ];
  });
  return Object.fromEntries([...built, ...added]);
}

type Start = Pick<Process, 'command' | 'entrypoint' | 'user' | 'workingDirectory'>;

function startOf({
  command,
  entrypoint,
  user,
  workingDirectory,
}: { [Name in keyof Start]: Start[Name] | undefined }): Start {
  return {
    ...(command === undefined ? {} : { command }),
    ...(entrypoint === undefined ? {} : { entrypoint }),
    ...(user === undefined ? {} : { user }),
    ...(workingDirectory === undefined ? {} : { workingDirectory }),
  };
}

/** Whether people said how a type of before is started, so that it means something to this image as well. */
function peoplesOf({ image }: Named, origin: Origin): (type: string, before: Process) => boolean {
  if (image === undefined || origin === undefined) return () => false;
  const named = origin === 'people' ? {} : freshProcesses(origin);
  const [slugStarter] = startedBySlug([]).command;
  return (type, before) => {
    if (before.command?.[0] === slugStarter) return false;
    const once = named[type];
    return once === undefined || !isDeepStrictEqual(startOf(before), startOf(once));
  };
}

/** What a build names, as it is where nothing was set. */
export function freshProcesses({ processTypes, image }: Named): Record<string, Process> {
  const lines = Object.entries(processTypes).filter(([type]) => type !== releaseType);
  if (image === undefined)
    return Object.fromEntries(lines.map(([type, line]) => [type, processSchema.parse(slugProcess(line, type))]));
  const { hasCommand, port } = image;
  const own: [string, undefined][] = hasCommand && processTypes['web'] === undefined ? [['web', undefined]] : [];
  const all: [string, string | undefined][] = [...own, ...lines];
  return Object.fromEntries(all.map(([type, line]) => [type, processSchema.parse(imageProcess(line, type, port))]));
}

/** What slugs are started with means nothing to an image. */
function withoutSlugEnv(env: Process['env']): Process['env'] {
  const slugEnv: Process['env'] = startedBySlug([]).env;
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => slugEnv[name] !== value));
}

/**
 * Who is told a port listens there. An image that names one itself may not: what was set for the first port stays, its number
 * is the image's.
 */
function portsOf(before: Process['ports'], fresh: Process['ports'], isFixed: boolean): Process['ports'] {
  const [first, ...others] = before;
  const [own] = fresh;
  if (first === undefined) return fresh;
  return isFixed && own !== undefined ? [{ ...first, port: own.port }, ...others] : before;
}

/** What is run around a deployment: app.json's scripts, and the Procfile's `release` line. */
export function scriptsOf({ processTypes, appJson }: Pick<BuildResult, 'processTypes' | 'appJson'>): Scripts {
  const release = processTypes[releaseType];
  return { ...appJson?.scripts, ...(release === undefined ? {} : { release }) };
}

function commonLinks([first, ...others]: readonly Process[]): string[] {
  return (first?.links ?? []).filter((link) => others.every(({ links }) => links.includes(link)));
}

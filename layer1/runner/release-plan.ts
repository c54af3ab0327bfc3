/** Which processes does a release of a new build have? */
import type { Scripts } from '@flynn/controller/app-json';
import { imageProcess, slugProcess, startedBySlug } from '@flynn/controller/compile';
import { type BuildResult, type Process, processSchema } from '@flynn/controller/model';

/** The line of a Procfile that is no process but a step of each deployment. */
const releaseType = 'release';

/**
 * What the build says to run, with what was set for the type before: resources, hosts, volumes, ports, links and timeouts. The
 * command and what belongs to the slug's image are new each time, since the release before may have been something else
 * than a slug. A type that is new reaches what all types reached before.
 */
export function processesOf(
  result: Pick<BuildResult, 'processTypes' | 'image'>,
  earlier: Readonly<Record<string, Process>>,
): Record<string, Process> {
  const links = commonLinks(Object.values(earlier));
  return Object.fromEntries(
    freshProcesses(result).map(([type, fresh]) => {
      const before = earlier[type];
      if (before === undefined) return [type, { ...fresh, links }];
      const {
        command: _command,
        entrypoint: _entrypoint,
        user: _user,
        workingDirectory: _directory,
        ...settings
      } = before;
      return [
        type,
        {
          ...fresh,
          ...settings,
          env: { ...withoutSlugEnv(settings.env), ...fresh.env },
          ports: portsOf(settings.ports, fresh.ports, result.image?.port !== undefined),
        },
      ];
    }),
  );
}

function freshProcesses({ processTypes, image }: Pick<BuildResult, 'processTypes' | 'image'>): [string, Process][] {
  const lines = Object.entries(processTypes).filter(([type]) => type !== releaseType);
  if (image === undefined) return lines.map(([type, line]) => [type, processSchema.parse(slugProcess(line, type))]);
  const { hasCommand, port } = image;
  const own: [string, undefined][] = hasCommand && processTypes['web'] === undefined ? [['web', undefined]] : [];
  return [...own, ...lines].map(([type, line]) => [type, processSchema.parse(imageProcess(line, type, port))]);
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

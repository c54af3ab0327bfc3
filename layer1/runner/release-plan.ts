/** Which processes does a release of a new build have? */
import type { Scripts } from '@flynn/controller/app-json';
import { slugProcess } from '@flynn/controller/compile';
import { type BuildResult, type Process, processSchema } from '@flynn/controller/model';

/** The line of a Procfile that is no process but a step of each deployment. */
const releaseType = 'release';

/**
 * What the build says to run, with what was set for the type before: resources, volumes, ports, links and timeouts. The
 * command and what belongs to the slug's image are new each time, since the release before may have been something else
 * than a slug. A type that is new reaches what all types reached before.
 */
export function processesOf(
  { processTypes }: Pick<BuildResult, 'processTypes'>,
  earlier: Readonly<Record<string, Process>>,
): Record<string, Process> {
  const links = commonLinks(Object.values(earlier));
  const lasting = Object.entries(processTypes).filter(([type]) => type !== releaseType);
  return Object.fromEntries(
    lasting.map(([type, line]) => {
      const fresh = processSchema.parse(slugProcess(line, type));
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
          env: { ...settings.env, ...fresh.env },
          ports: settings.ports.length > 0 ? settings.ports : fresh.ports,
        },
      ];
    }),
  );
}

/** What is run around a deployment: app.json's scripts, and the Procfile's `release` line. */
export function scriptsOf({ processTypes, appJson }: Pick<BuildResult, 'processTypes' | 'appJson'>): Scripts {
  const release = processTypes[releaseType];
  return { ...appJson?.scripts, ...(release === undefined ? {} : { release }) };
}

function commonLinks([first, ...others]: readonly Process[]): string[] {
  return (first?.links ?? []).filter((link) => others.every(({ links }) => links.includes(link)));
}

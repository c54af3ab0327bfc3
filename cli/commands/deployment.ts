import { deployments, releases } from '@flynn/controller/api';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addDeploymentCommands(parent: Parent): void {
  addCommand(parent, {
    name: 'deployment',
    summary: "an app's deployments, newest first",
    async run(context) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const [found, known] = await Promise.all([
        client.call(deployments.list, { params }),
        client.call(releases.list, { params }),
      ]);
      const versions = new Map(known.map((release) => [release.id, `v${release.version}`]));
      context.show(found, () =>
        formatTable(
          ['ID', 'STATE', 'FROM', 'TO', 'CREATED', 'NOTE'],
          found.map((one) => [
            one.id,
            one.state,
            one.oldReleaseId === undefined ? '' : versions.get(one.oldReleaseId),
            versions.get(one.newReleaseId),
            formatAge(one.createdAt, Date.now()),
            one.error,
          ]),
        ),
      );
    },
  });
}

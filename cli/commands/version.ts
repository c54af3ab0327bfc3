import { platform } from '@flynn/controller/platform/api';
import { hasCode } from '@flynn/kit/errors';
import packageFile from '../package.json' with { type: 'json' };
import { addCommand, type Parent } from './command.ts';

export function addVersionCommand(parent: Parent): void {
  addCommand(parent, {
    name: 'version',
    summary: "the versions of this command and of the cluster's controller",
    async run(context) {
      let cluster: string | null = null;
      try {
        const client = await context.client();
        cluster = (await client.call(platform.cluster, {}, { timeoutMs: 3_000 })).version;
      } catch (error) {
        if (!hasCode(error, 'unavailable', 'timeout', 'not_found', 'unauthenticated')) throw error;
      }
      const { version } = packageFile;
      context.show({ client: version, cluster }, () => `flynn ${version}\ncluster ${cluster ?? 'not reached'}`);
    },
  });
}

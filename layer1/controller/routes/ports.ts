/** Which ports can a tcp route not have? Pure. */

/** Every router would listen on it beside, or before, whoever has it. A test holds this against what hosts are checked for. */
export const platformPorts: readonly { port: number; use: string }[] = [
  { port: 53, use: 'names' },
  { port: 1111, use: 'service discovery' },
  { port: 1112, use: 'hosts that join' },
  { port: 1113, use: 'the host agents' },
  { port: 1114, use: 'the router’s status' },
  { port: 1116, use: 'keyspaces of jobs' },
  { port: 2379, use: 'etcd' },
  { port: 2380, use: 'etcd' },
];

/** What has this port, if it is not for routes. */
export function portUse(port: number, own: { httpPort: number; httpsPort: number }): string | undefined {
  if (port === own.httpPort) return 'the router’s http';
  if (port === own.httpsPort) return 'the router’s https';
  return platformPorts.find((one) => one.port === port)?.use;
}

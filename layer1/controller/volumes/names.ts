/** What do hosts call an app's volume, and whose is one by what they call it? Pure. */
/** A host knows volumes by name alone. */
export function ownVolumeName(appId: string, type: string, name: string): string {
  return `${appId}.${type}.${name}`;
}

/** Of a name that hosts know: whose volume it is, where it is an app's own. */
export function ownVolumeOf(hostName: string): { appId: string; type: string; name: string } | undefined {
  const [, appId, type, name] = /^([a-z][a-z0-9]{11})\.([^.]+)\.(.+)$/.exec(hostName) ?? [];
  return appId === undefined || type === undefined || name === undefined ? undefined : { appId, type, name };
}

/** As the app calls it. */
export function plainVolumeName(appId: string, name: string): string {
  const own = `${appId}.`;
  return name.startsWith(own) ? name.slice(own.length).replace(/^[^.]*\./, '') : name;
}

// Keeps the whole page for use without a network. The address carries the version of its files.

const NAME = `td3-playground-${new URL(location).searchParams.get("version")}`;

async function keep() {
  const { files } = await (await fetch("policies.json")).json();
  await (await caches.open(NAME)).addAll(files);
}

async function forgetOthers() {
  const names = (await caches.keys()).filter((name) => name.startsWith("td3-playground-"));
  await Promise.all(names.filter((name) => name !== NAME).map((name) => caches.delete(name)));
  await self.clients.claim();
}

self.addEventListener("install", (event) => event.waitUntil(keep().then(() => self.skipWaiting())));
self.addEventListener("activate", (event) => event.waitUntil(forgetOthers()));
self.addEventListener("fetch", (event) => {
  const find = caches.open(NAME).then((kept) => kept.match(event.request, { ignoreSearch: true }));
  event.respondWith(find.then((found) => found ?? fetch(event.request)));
});

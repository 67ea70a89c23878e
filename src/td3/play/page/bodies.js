// The bodies of a MuJoCo model as three.js objects.

import * as THREE from "./vendor/three.js";

const [PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX] = [0, 2, 3, 4, 5, 6];
const HIDDEN_GROUP = 3; // MuJoCo's viewer shows groups 0 to 2
const FLOOR = 200; // metres from the middle of the picture to its end

/** Length of the floor's pattern in metres. A floor moved by this looks the same. */
export const PATTERN = 2;

/** A group for each body with the shapes that it consists of; `body` in `userData` of a shape. */
export function makeBodies(model) {
  const bodies = Array.from({ length: model.nbody }, () => new THREE.Group());
  for (let geom = 0; geom < model.ngeom; geom++) {
    const alpha = model.geom_rgba[4 * geom + 3];
    if (model.geom_group[geom] >= HIDDEN_GROUP || alpha === 0) continue;
    const mesh = makeMesh(model, geom);
    if (!mesh) continue;
    mesh.position.fromArray(model.geom_pos, 3 * geom);
    const [w, x, y, z] = model.geom_quat.subarray(4 * geom, 4 * geom + 4);
    mesh.quaternion.set(x, y, z, w);
    mesh.userData.body = model.geom_bodyid[geom];
    bodies[mesh.userData.body].add(mesh);
  }
  return bodies;
}

function makeMesh(model, geom) {
  const type = model.geom_type[geom];
  const [a, b, c] = model.geom_size.subarray(3 * geom, 3 * geom + 3);
  const shape = makeShape(type, a, b, c);
  if (!shape) return null;
  const isFloor = type === PLANE;
  const mesh = new THREE.Mesh(shape, isFloor ? makeFloor() : makeMaterial(model, geom));
  mesh.userData.isFloor = isFloor;
  mesh.castShadow = !isFloor;
  mesh.receiveShadow = true;
  return mesh;
}

function makeMaterial(model, geom) {
  const material = model.geom_matid[geom];
  const rgba = material >= 0 ? model.mat_rgba : model.geom_rgba;
  const start = 4 * (material >= 0 ? material : geom);
  const color = new THREE.Color().setRGB(...rgba.subarray(start, start + 3), THREE.SRGBColorSpace);
  const opacity = rgba[start + 3];
  return new THREE.MeshStandardMaterial({ color, roughness: 0.55, opacity, transparent: opacity < 1 });
}

function makeShape(type, a, b, c) {
  switch (type) {
    case PLANE:
      return new THREE.PlaneGeometry(2 * FLOOR, 2 * FLOOR);
    case SPHERE:
      return new THREE.SphereGeometry(a, 32, 16);
    case ELLIPSOID:
      return new THREE.SphereGeometry(1, 32, 16).scale(a, b, c);
    case CAPSULE:
      return new THREE.CapsuleGeometry(a, 2 * b, 12, 24).rotateX(Math.PI / 2);
    case CYLINDER:
      return new THREE.CylinderGeometry(a, a, 2 * b, 32).rotateX(Math.PI / 2);
    case BOX:
      return new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
    default:
      return null; // meshes and height fields: no task that ships has them
  }
}

/** A checkerboard. */
function makeFloor() {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 128;
  const paint = tile.getContext("2d");
  paint.fillStyle = "#6f7f92";
  paint.fillRect(0, 0, 128, 128);
  paint.fillStyle = "#5d6c7f";
  paint.fillRect(0, 0, 64, 64);
  paint.fillRect(64, 64, 64, 64);
  const texture = new THREE.CanvasTexture(tile);
  texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.repeat.set((2 * FLOOR) / PATTERN, (2 * FLOOR) / PATTERN);
  texture.anisotropy = 8;
  texture.colorSpace = THREE.SRGBColorSpace;
  return new THREE.MeshStandardMaterial({ map: texture, roughness: 1 });
}

// Draws a simulation with three.js, and turns the mouse into pushes.

import * as THREE from "./vendor/three.js";

const [PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX] = [0, 2, 3, 4, 5, 6];
const FREE_JOINT = 0;
const HIDDEN_GROUP = 3; // MuJoCo's viewer shows groups 0 to 2

// Where the camera looks from: distance, height of the target, elevation and azimuth in degrees.
const CAMERAS = {
  "Ant-v5": [5, 0.5, 25, 70],
  "HalfCheetah-v5": [3.6, 0.6, 12, 90],
  "Hopper-v5": [3.6, 0.8, 10, 90],
  "Humanoid-v5": [4.2, 1.0, 12, 60],
  "InvertedDoublePendulum-v5": [3.6, 0.5, 8, 90],
  "InvertedPendulum-v5": [2.6, 0.2, 8, 90],
  "Reacher-v5": [0.75, 0, 65, 90],
  "Swimmer-v5": [4, 0, 55, 90],
  "Walker2d-v5": [4, 0.8, 10, 90],
};
const LONGEST_PULL = 1; // metres
const STIFFNESS = 40; // newtons for a metre and a kilogram

export class View {
  constructor(canvas) {
    this.canvas = canvas;
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = THREE.PCFShadowMap;
    this.camera = new THREE.PerspectiveCamera(42, 1, 0.01, 200);
    this.camera.up.set(0, 0, 1);
    this.target = new THREE.Vector3();
    this.pointer = new THREE.Vector2();
    this.ray = new THREE.Raycaster();
    this.grab = null;
    this.orbit = null;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, () => this.release());
    }
    canvas.addEventListener("wheel", (event) => this.zoom(event), { passive: false });
  }

  /** Show another simulation. */
  show(simulation) {
    this.release();
    this.simulation = simulation;
    const [distance, lift, elevation, azimuth] = CAMERAS[simulation.policy.card.task];
    Object.assign(this, { distance, lift, elevation, azimuth });
    this.scene?.traverse((object) => {
      object.geometry?.dispose();
      object.material?.map?.dispose();
      object.material?.dispose();
    });
    this.scene = new THREE.Scene();
    this.scene.background = new THREE.Color(0xbfd4e6);
    this.scene.fog = new THREE.Fog(0xbfd4e6, 4 * distance, 14 * distance);
    this.addLights(distance);
    this.addGeoms(simulation);
    this.arrow = new THREE.ArrowHelper(new THREE.Vector3(1, 0, 0), undefined, 1, 0xc81e1e);
    this.arrow.visible = false;
    this.scene.add(this.arrow);
  }

  addLights(distance) {
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x8890a0, 2));
    this.sun = new THREE.DirectionalLight(0xffffff, 2);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(1024, 1024);
    const { camera } = this.sun.shadow;
    camera.left = camera.bottom = -distance;
    camera.right = camera.top = distance;
    camera.far = 6 * distance;
    this.sun.shadow.normalBias = 0.005 * distance;
    this.scene.add(this.sun, this.sun.target);
  }

  addGeoms({ model }) {
    this.bodies = Array.from({ length: model.nbody }, () => {
      const group = new THREE.Group();
      this.scene.add(group);
      return group;
    });
    for (let geom = 0; geom < model.ngeom; geom++) {
      const alpha = model.geom_rgba[4 * geom + 3];
      if (model.geom_group[geom] >= HIDDEN_GROUP || alpha === 0) continue;
      const mesh = this.makeMesh(model, geom);
      if (!mesh) continue;
      mesh.position.fromArray(model.geom_pos, 3 * geom);
      const [w, x, y, z] = model.geom_quat.subarray(4 * geom, 4 * geom + 4);
      mesh.quaternion.set(x, y, z, w);
      mesh.userData.body = model.geom_bodyid[geom];
      this.bodies[mesh.userData.body].add(mesh);
    }
  }

  makeMesh(model, geom) {
    const [a, b, c] = model.geom_size.subarray(3 * geom, 3 * geom + 3);
    const shape = makeShape(model.geom_type[geom], a, b, c);
    if (!shape) return null;
    const isFloor = model.geom_type[geom] === PLANE;
    const material = model.geom_matid[geom];
    const rgba = material >= 0 ? model.mat_rgba : model.geom_rgba;
    const start = 4 * (material >= 0 ? material : geom);
    const color = new THREE.Color().setRGB(...rgba.subarray(start, start + 3), THREE.SRGBColorSpace);
    const opacity = rgba[start + 3];
    const look = isFloor
      ? { map: checkerboard(), roughness: 1 }
      : { color, roughness: 0.55, opacity, transparent: opacity < 1 };
    const mesh = new THREE.Mesh(shape, new THREE.MeshStandardMaterial(look));
    mesh.castShadow = !isFloor;
    mesh.receiveShadow = true;
    return mesh;
  }

  /** Draw the present state. */
  draw(quality) {
    this.fit(quality.ratio);
    this.sun.castShadow = quality.shadows;
    const { data, model } = this.simulation;
    this.bodies.forEach((group, body) => {
      group.position.fromArray(data.xpos, 3 * body);
      const [w, x, y, z] = data.xquat.subarray(4 * body, 4 * body + 4);
      group.quaternion.set(x, y, z, w);
    });
    this.follow(model, data);
    this.drawPull();
    this.renderer.render(this.scene, this.camera);
  }

  fit(ratio) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.width === width && this.height === height && this.ratio === ratio) return;
    Object.assign(this, { width, height, ratio });
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
  }

  /** Let the camera follow a body that moves over the floor. */
  follow(model, data) {
    const isFree = model.jnt_type[0] === FREE_JOINT || model.body_jntnum[1] > 1;
    const [x, y] = isFree ? data.xpos.subarray(3, 5) : [0, 0];
    this.target.set(x, y, this.lift);
    const tilt = (this.elevation * Math.PI) / 180;
    const turn = (this.azimuth * Math.PI) / 180;
    const narrow = Math.max(1, 1.15 / this.camera.aspect); // step back on a narrow screen
    const flat = Math.cos(tilt) * this.distance * narrow;
    this.camera.position.set(
      x - flat * Math.cos(turn),
      y - flat * Math.sin(turn),
      this.target.z + Math.sin(tilt) * this.distance * narrow,
    );
    this.camera.lookAt(this.target);
    this.sun.position.set(x - this.distance, y - this.distance, 3 * this.distance);
    this.sun.target.position.copy(this.target);
  }

  aim(event) {
    const box = this.canvas.getBoundingClientRect();
    this.pointer.x = (2 * (event.clientX - box.left)) / box.width - 1;
    this.pointer.y = 1 - (2 * (event.clientY - box.top)) / box.height;
    this.ray.setFromCamera(this.pointer, this.camera);
  }

  press(event) {
    if (!this.simulation) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.aim(event);
    const hits = this.ray.intersectObjects(this.scene.children, true);
    const hit = hits.find(({ object }) => object.userData.body > 0);
    if (!hit || event.button !== 0) {
      this.orbit = [event.clientX, event.clientY, this.azimuth, this.elevation];
      return;
    }
    const { body } = hit.object.userData;
    const facing = this.camera.getWorldDirection(new THREE.Vector3());
    this.grab = {
      body,
      local: this.bodies[body].worldToLocal(hit.point.clone()),
      plane: new THREE.Plane().setFromNormalAndCoplanarPoint(facing, hit.point),
      to: hit.point.clone(),
    };
    this.simulation.push = (simulation) => this.pull(simulation);
  }

  drag(event) {
    if (this.orbit) {
      const [x, y, azimuth, elevation] = this.orbit;
      this.azimuth = azimuth - 0.4 * (event.clientX - x);
      this.elevation = Math.min(Math.max(elevation + 0.4 * (event.clientY - y), 2), 88);
    } else if (this.grab) {
      this.aim(event);
      this.ray.ray.intersectPlane(this.grab.plane, this.grab.to);
    }
  }

  release() {
    if (this.grab) this.simulation.push = null;
    this.grab = this.orbit = null;
  }

  zoom(event) {
    if (!event.ctrlKey && document.activeElement !== this.canvas) return; // let the page scroll
    event.preventDefault();
    this.distance *= Math.exp(0.001 * event.deltaY);
  }

  /** A spring between the grabbed point and the mouse, for a body of the simulation. */
  pull({ data, model }) {
    const { body, local, to } = this.grab;
    const from = this.pointOn(data, body, local);
    const delta = to.clone().sub(from).clampLength(0, LONGEST_PULL);
    const force = delta.multiplyScalar(STIFFNESS * model.body_subtreemass[1]);
    const centre = new THREE.Vector3().fromArray(data.xipos, 3 * body);
    const torque = from.sub(centre).cross(force);
    data.xfrc_applied.set([...force.toArray(), ...torque.toArray()], 6 * body);
  }

  pointOn(data, body, local) {
    const [w, x, y, z] = data.xquat.subarray(4 * body, 4 * body + 4);
    const turned = local.clone().applyQuaternion({ x, y, z, w });
    return turned.add(new THREE.Vector3().fromArray(data.xpos, 3 * body));
  }

  drawPull() {
    this.arrow.visible = Boolean(this.grab);
    if (!this.grab) return;
    const from = this.pointOn(this.simulation.data, this.grab.body, this.grab.local);
    const delta = this.grab.to.clone().sub(from);
    const length = Math.max(delta.length(), 1e-3);
    this.arrow.position.copy(from);
    this.arrow.setDirection(delta.normalize());
    this.arrow.setLength(length, 0.06 * this.distance, 0.03 * this.distance);
  }
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

const FLOOR = 200; // metres from the middle; the tasks' floors are as good as endless

function checkerboard() {
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
  texture.repeat.set(FLOOR, FLOOR);
  texture.anisotropy = 8;
  texture.colorSpace = THREE.SRGBColorSpace;
  return texture;
}
